"""Writes what group coordinators must not forget into `__consumer_offsets`, in Kafka's own record formats.

Pure. A `groups.messages.Journal`: commits and group metadata become keyed records (the key says which, so that
compaction could keep the last of each), readable by any client. Formats: OffsetCommitKey v1, OffsetCommitValue
v3, GroupMetadataKey v2, GroupMetadataValue v3 of Kafka's message definitions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from sarameya.embedded.groups.messages import GroupRecord, MemberRecord
from sarameya.embedded.partition_log import Appended
from sarameya.embedded.topics import Partition
from sarameya.model import CommittedOffset, TopicPartition
from sarameya.protocol.records import build

_OFFSET_KEY, _OFFSET_VALUE = 1, 3
_GROUP_KEY, _GROUP_VALUE = 2, 3


class OffsetsJournal:
    """`partition_of` finds a group's partition of the topic, `append` stores a batch there."""

    def __init__(
        self,
        partition_of: Callable[[str], Partition],
        append: Callable[[Partition, bytes], Appended],
        wall_clock: Callable[[], float],
    ) -> None:
        self._partition_of = partition_of
        self._append = append
        self._wall_clock = wall_clock

    def store_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        """One batch, a record a partition; None is a tombstone."""
        now = self._now()
        self._store(
            group_id,
            {
                offset_key(group_id, partition): None if commit is None else offset_value(commit, now)
                for partition, commit in offsets.items()
            },
            now,
        )

    def store_group(self, group_id: str, record: GroupRecord | None) -> None:
        """One record; None is a tombstone."""
        now = self._now()
        self._store(group_id, {group_key(group_id): None if record is None else group_value(record, now)}, now)

    def _store(self, group_id: str, records: Mapping[bytes, bytes | None], now: int) -> None:
        if records:
            batch = build((now, key, value, ()) for key, value in records.items())
            self._append(self._partition_of(group_id), batch)

    def _now(self) -> int:
        return int(self._wall_clock() * 1000)


def offset_key(group_id: str, partition: TopicPartition) -> bytes:
    return b"".join(
        (
            struct.pack(">h", _OFFSET_KEY),
            _string(group_id),
            _string(partition.topic),
            struct.pack(">i", partition.partition),
        )
    )


def offset_value(commit: CommittedOffset, timestamp: int) -> bytes:
    """`timestamp`: milliseconds since 1970."""
    return b"".join(
        (
            struct.pack(">hqi", _OFFSET_VALUE, commit.offset, commit.leader_epoch),
            _string(commit.metadata),
            struct.pack(">q", timestamp),
        )
    )


def group_key(group_id: str) -> bytes:
    return struct.pack(">h", _GROUP_KEY) + _string(group_id)


def group_value(record: GroupRecord, timestamp: int) -> bytes:
    """`timestamp`: milliseconds since 1970."""
    return b"".join(
        (
            struct.pack(">h", _GROUP_VALUE),
            _string(record.protocol_type),
            struct.pack(">i", record.generation),
            _string(record.protocol_name),
            _string(record.leader),
            struct.pack(">qi", timestamp, len(record.members)),
            *map(_member, record.members),
        )
    )


def _member(member: MemberRecord) -> bytes:
    return b"".join(
        (
            _string(member.member_id),
            _string(member.group_instance_id),
            _string(member.client_id),
            _string(member.client_host),
            struct.pack(">ii", int(member.rebalance_timeout * 1000), int(member.session_timeout * 1000)),
            _bytes(member.subscription),
            _bytes(member.assignment),
        )
    )


def _string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
