"""The part of a group that the log stores: commits, metadata, and the journal. Frozen data.

A coordinator that loads a group from `__consumer_offsets` finds only this data. Times of day are in seconds since 1970
(milliseconds in the log).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

from sarameya.model import CommittedOffset, TopicPartition


@attrs.frozen(slots=True)
class StoredOffset:
    """A commit, and the times that decide how long it is kept (OffsetCommitValue)."""

    committed: CommittedOffset
    commit_time: float
    """Time of day of the commit."""
    expires_at: float | None = None
    """Time of day when the commit expires, whatever the state of its group; None if the broker's setting decides.

    Set only if the client sent a retention time, which is possible in OffsetCommit v2 to v4 (removed by KIP-211).
    """


@attrs.frozen(slots=True)
class MemberRecord:
    """A member (MemberMetadata of GroupMetadataValue)."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    subscription: bytes
    """The metadata for the chosen assignor; metadata of other assignors is not stored."""
    assignment: bytes


@attrs.frozen(slots=True)
class GroupRecord:
    """A group (GroupMetadataValue). `protocol_type` is empty for a group that no member has joined yet."""

    generation: int
    protocol_type: str
    protocol_name: str | None
    leader: str | None
    members: tuple[MemberRecord, ...]
    state_time: float | None = None
    """Time of day of the last state change. The retention of an Empty group's offsets counts from it (KIP-211)."""


@attrs.frozen(slots=True)
class GroupImage:
    """The data that survives a move to another coordinator: exactly what the log holds.

    A rebalance in progress is not included. Its members find the last stored generation and join again.
    """

    group_id: str
    record: GroupRecord | None
    """The metadata; None for a group that was used only for commits."""
    offsets: Mapping[TopicPartition, StoredOffset]


class Journal(Protocol):
    """The log that the coordinator writes to before it answers: the group's partition of `__consumer_offsets`."""

    def store_offsets(self, group_id: str, offsets: Mapping[TopicPartition, StoredOffset | None]) -> None:
        """Append these commits; None is a tombstone for a deleted commit."""

    def store_group(self, group_id: str, record: GroupRecord | None) -> None:
        """Append the group's metadata; None is a tombstone for a deleted group."""


class _NoJournal:
    """A journal that stores nothing: groups are in memory only."""

    def store_offsets(self, group_id: str, offsets: Mapping[TopicPartition, StoredOffset | None]) -> None:
        pass

    def store_group(self, group_id: str, record: GroupRecord | None) -> None:
        pass


NO_JOURNAL: Journal = _NoJournal()
