"""The records of `__consumer_offsets` in Kafka's own formats. Pure: bytes to values and back.

The formats are those of Kafka's message definitions: OffsetCommitKey v1, OffsetCommitValue v3 (v1 for a commit with its
own expiry time), GroupMetadataKey v2, GroupMetadataValue v3.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from sarameya.embedded.groups.model.stored import GroupRecord, MemberRecord, StoredOffset
from sarameya.model import NO_LEADER_EPOCH, CommittedOffset, TopicPartition

_OFFSET_KEY, _OFFSET_VALUE, _OFFSET_VALUE_WITH_EXPIRY = 1, 3, 1
_GROUP_KEY, _GROUP_VALUE = 2, 3
_NO_TIME = -1


class OffsetKey(NamedTuple):
    """Key of a commit: the group and the partition."""

    group_id: str
    partition: TopicPartition


class GroupKey(NamedTuple):
    """Key of a group's metadata."""

    group_id: str


# Writing


def offset_key(group_id: str, partition: TopicPartition) -> bytes:
    """Encode the key of a committed offset's record."""
    return b"".join(
        (
            struct.pack(">h", _OFFSET_KEY),
            _string(group_id),
            _string(partition.topic),
            struct.pack(">i", partition.partition),
        )
    )


def offset_value(offset: StoredOffset) -> bytes:
    """Encode a committed offset."""
    commit, committed_at = offset.committed, struct.pack(">q", _ms(offset.commit_time))
    if offset.expires_at is not None:
        return b"".join(
            (
                struct.pack(">hq", _OFFSET_VALUE_WITH_EXPIRY, commit.offset),
                _string(commit.metadata),
                committed_at,
                struct.pack(">q", _ms(offset.expires_at)),
            )
        )
    return b"".join(
        (
            struct.pack(">hqi", _OFFSET_VALUE, commit.offset, commit.leader_epoch),
            _string(commit.metadata),
            committed_at,
        )
    )


def group_key(group_id: str) -> bytes:
    """Encode the key of a group's record."""
    return struct.pack(">h", _GROUP_KEY) + _string(group_id)


def group_value(record: GroupRecord) -> bytes:
    """Encode a group."""
    return b"".join(
        (
            struct.pack(">h", _GROUP_VALUE),
            _string(record.protocol_type),
            struct.pack(">i", record.generation),
            _string(record.protocol_name),
            _string(record.leader),
            struct.pack(">qi", _ms(record.state_time), len(record.members)),
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
            struct.pack(">ii", _ms(member.rebalance_timeout), _ms(member.session_timeout)),
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


def _ms(seconds: float | None) -> int:
    return _NO_TIME if seconds is None else round(seconds * 1000)


# Reading


def read_key(data: bytes) -> OffsetKey | GroupKey:
    """Decode a record's key.

    Raises:
        ValueError: The bytes are not a key of these formats.
    """
    fields = _Reader(data)
    version = fields.int16()
    if version == _OFFSET_KEY:
        key: OffsetKey | GroupKey = OffsetKey(fields.string(), TopicPartition(fields.string(), fields.int32()))
    elif version == _GROUP_KEY:
        key = GroupKey(fields.string())
    else:
        raise ValueError(f"unknown record key version {version}")
    fields.end()
    return key


def read_offset(data: bytes) -> StoredOffset:
    """Decode a commit.

    Raises:
        ValueError: The bytes are not a commit of these formats.
    """
    fields = _Reader(data)
    version = fields.int16()
    if version not in (_OFFSET_VALUE, _OFFSET_VALUE_WITH_EXPIRY):
        raise ValueError(f"unknown offset version {version}")
    offset = fields.int64()
    epoch = fields.int32() if version == _OFFSET_VALUE else NO_LEADER_EPOCH
    commit = CommittedOffset(offset, fields.string(), epoch)
    commit_time = fields.int64() / 1000
    expires_at = fields.time() if version == _OFFSET_VALUE_WITH_EXPIRY else None
    fields.end()
    return StoredOffset(commit, commit_time, expires_at)


def read_group(data: bytes) -> GroupRecord:
    """Decode a group's metadata.

    Raises:
        ValueError: The bytes are not group metadata of this format.
    """
    fields = _Reader(data)
    version = fields.int16()
    if version != _GROUP_VALUE:
        raise ValueError(f"unknown group metadata version {version}")
    protocol_type = fields.string()
    generation = fields.int32()
    protocol_name, leader = fields.nullable_string(), fields.nullable_string()
    state_time = fields.time()
    members = tuple(_read_member(fields) for _ in range(fields.int32()))
    fields.end()
    return GroupRecord(generation, protocol_type, protocol_name, leader, members, state_time)


def _read_member(fields: _Reader) -> MemberRecord:
    member_id = fields.string()
    group_instance_id = fields.nullable_string()
    client_id, client_host = fields.string(), fields.string()
    rebalance_timeout, session_timeout = fields.int32() / 1000, fields.int32() / 1000
    return MemberRecord(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        session_timeout,
        rebalance_timeout,
        fields.octets(),
        fields.octets(),
    )


class _Reader:
    """Reads fields one after another. Every method raises ValueError if the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int16(self) -> int:
        return self._int(2)

    def int32(self) -> int:
        return self._int(4)

    def int64(self) -> int:
        return self._int(8)

    def time(self) -> float | None:
        """Read a time of day in seconds; None if it is not set."""
        value = self._int(8)
        return None if value == _NO_TIME else value / 1000

    def string(self) -> str:
        return self._read(self._int(2)).decode()

    def nullable_string(self) -> str | None:
        size = self._int(2)
        return None if size == -1 else self._read(size).decode()

    def octets(self) -> bytes:
        return self._read(self._int(4))

    def end(self) -> None:
        if self._position != len(self._data):
            raise ValueError(f"{len(self._data) - self._position} bytes after the record's last field")

    def _int(self, size: int) -> int:
        return int.from_bytes(self._read(size), "big", signed=True)

    def _read(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise ValueError("the record is incomplete")
        data = self._data[self._position : end]
        self._position = end
        return data
