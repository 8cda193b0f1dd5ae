"""What the log keeps of a group: commits, metadata, and the journal they are written to. Frozen data only.

`__consumer_offsets` is the truth: a coordinator that takes a group over knows of it what is in here, and no more. Times
of day are seconds since 1970 (the log has milliseconds).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

from sarameya.model import CommittedOffset, TopicPartition


@attrs.frozen(slots=True)
class StoredOffset:
    """A commit, and what decides how long it is kept (OffsetCommitValue)."""

    committed: CommittedOffset
    commit_time: float
    """When it was committed, time of day."""
    expires_at: float | None = None
    """When it expires whatever its group does, time of day: only where the committer said how long to keep it,
    which OffsetCommit could say in v2 to v4 (KIP-211 took it out)."""


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
    """Its metadata for the chosen assignor; the others it supports are not kept."""
    assignment: bytes


@attrs.frozen(slots=True)
class GroupRecord:
    """A group (GroupMetadataValue). `protocol_type` is empty for a group that nobody has joined yet."""

    generation: int
    protocol_type: str
    protocol_name: str | None
    leader: str | None
    members: tuple[MemberRecord, ...]
    state_time: float | None = None
    """Since when it is in its state, time of day: what offsets of an Empty group are kept from (KIP-211)."""


@attrs.frozen(slots=True)
class GroupImage:
    """All that survives a move to another coordinator: exactly what the log holds.

    A round that was under way is not in it: its members find the last stored generation and join again.
    """

    group_id: str
    record: GroupRecord | None
    """None for a group that only ever committed offsets."""
    offsets: Mapping[TopicPartition, StoredOffset]


class Journal(Protocol):
    """Where the coordinator writes before it answers: the `__consumer_offsets` partition of the group."""

    def store_offsets(self, group_id: str, offsets: Mapping[TopicPartition, StoredOffset | None]) -> None:
        """Append these commits; None is a tombstone: the commit was deleted."""

    def store_group(self, group_id: str, record: GroupRecord | None) -> None:
        """Append the group's metadata; None is a tombstone: the group was deleted."""


class _NoJournal:
    """A journal that keeps nothing: the groups live in memory alone."""

    def store_offsets(self, group_id: str, offsets: Mapping[TopicPartition, StoredOffset | None]) -> None:
        pass

    def store_group(self, group_id: str, record: GroupRecord | None) -> None:
        pass


NO_JOURNAL: Journal = _NoJournal()
