"""Encoding of Fetch requests: a fetch plan to bytes, in each version that the client speaks. Pure.

If messages arrive one by one, a request is sent for each message. kafka-python's objects for it would take a sixth of
the work for such a message. The bytes are the same as kafka-python's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from struct import Struct
from typing import ClassVar
from uuid import UUID

import attrs

from sarameya.model import TopicPartition
from sarameya.protocol.fetch.fetch_session import FetchPlan, PartitionFetch
from sarameya.protocol.versions import Api
from sarameya.protocol.wire.tagged_fields import NO_TAGS, as_unsigned_varint

_WITH_LOG_START = 5
_WITH_SESSIONS = 7
"""KIP-227."""
_WITH_LEADER_EPOCH = 9
"""KIP-320."""
_WITH_RACK = 11
"""KIP-392."""
_FLEXIBLE = 12
"""KIP-482."""
_WITH_TOPIC_IDS = 13
"""KIP-516."""
_WITHOUT_REPLICA = 15
"""KIP-903: only brokers send a replica id."""

_INT16, _INT32, _TWO_INT32 = Struct(">h"), Struct(">i"), Struct(">ii")
_LIMITS = Struct(">iiib")
_NO_REPLICA = _INT32.pack(-1)
_NO_ID = bytes(16)

# Partition number, leader epoch, position, last fetched epoch, log start, maximal bytes, no tagged fields.
_FLEXIBLE_PARTITION = Struct(">iiqiqix")
_EPOCH_PARTITION = Struct(">iiqqi")
_LOG_START_PARTITION = Struct(">iqqi")
_PARTITION = Struct(">iqi")


@attrs.frozen(slots=True)
class FetchRequest:
    """Fetch request in one version. Used like kafka-python's requests: `FetchRequest[version](...)`."""

    API_KEY: ClassVar[int] = Api.FETCH
    API_VERSION: int
    plan: FetchPlan
    """The partitions to fetch. From version 13 on requests name topics by id, so each partition needs a topic id."""
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    rack_id: str

    def __class_getitem__(cls, version: int) -> Callable[..., FetchRequest]:
        return partial(cls, version)

    @staticmethod
    def flexible_version_q(version: int) -> bool:
        """Return whether that version has tagged fields. The name is kafka-python's."""
        return version >= _FLEXIBLE

    def encode(self) -> bytes:
        """Return the body. Raises struct.error or ValueError for values that do not fit."""
        version, plan = self.API_VERSION, self.plan
        parts = [] if version >= _WITHOUT_REPLICA else [_NO_REPLICA]
        parts.append(_LIMITS.pack(self.max_wait_ms, self.min_bytes, self.max_bytes, self.isolation_level))
        if version >= _WITH_SESSIONS:
            parts.append(_TWO_INT32.pack(plan.session_id, plan.session_epoch))
        row = _row(version)
        fetches = plan.partitions.items()
        fetched = ((partition, fetch.topic_id, row(partition.partition, fetch)) for partition, fetch in fetches)
        parts.append(_topics(fetched, version))
        if version >= _WITH_SESSIONS:
            forgotten = ((partition, id_, _INT32.pack(partition.partition)) for partition, id_ in plan.forgotten)
            parts.append(_topics(forgotten, version))
        if version >= _WITH_RACK:
            parts.append(_string(self.rack_id, version))
        if version >= _FLEXIBLE:
            parts.append(NO_TAGS)
        return b"".join(parts)


def _row(version: int) -> Callable[[int, PartitionFetch], bytes]:
    """Return the encoder of one requested partition. Fields that only brokers fill in are -1."""
    if version >= _FLEXIBLE:
        pack = _FLEXIBLE_PARTITION.pack
        return lambda number, fetch: pack(number, fetch.leader_epoch, fetch.position, -1, -1, fetch.max_bytes)
    if version >= _WITH_LEADER_EPOCH:
        pack = _EPOCH_PARTITION.pack
        return lambda number, fetch: pack(number, fetch.leader_epoch, fetch.position, -1, fetch.max_bytes)
    if version >= _WITH_LOG_START:
        return lambda number, fetch: _LOG_START_PARTITION.pack(number, fetch.position, -1, fetch.max_bytes)
    return lambda number, fetch: _PARTITION.pack(number, fetch.position, fetch.max_bytes)


def _topics(rows: Iterable[tuple[TopicPartition, UUID | None, bytes]], version: int) -> bytes:
    """Encode an array of topics, each with the rows of its partitions, in the order of `rows`."""
    topics: dict[tuple[str, UUID | None], list[bytes]] = {}
    for (topic, _), topic_id, row in rows:
        topics.setdefault((topic, topic_id), []).append(row)
    tags = NO_TAGS if version >= _FLEXIBLE else b""
    parts = [_count(len(topics), version)]
    for (topic, topic_id), partitions in topics.items():
        if version >= _WITH_TOPIC_IDS:
            parts.append(_NO_ID if topic_id is None else topic_id.bytes)
        else:
            parts.append(_string(topic, version))
        parts.append(_count(len(partitions), version))
        parts += partitions
        parts.append(tags)
    return b"".join(parts)


def _count(count: int, version: int) -> bytes:
    return as_unsigned_varint(count + 1) if version >= _FLEXIBLE else _INT32.pack(count)


def _string(text: str, version: int) -> bytes:
    data = text.encode()
    return (as_unsigned_varint(len(data) + 1) if version >= _FLEXIBLE else _INT16.pack(len(data))) + data
