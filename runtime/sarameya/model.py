"""The nouns every room shares: partitions, messages, generations, assignments.

Owns nothing and does nothing; frozen data only. Field names are Kafka's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import attrs
import msgspec

NO_LEADER_EPOCH = -1
"""The leader epoch of a record whose format or broker does not carry one (KIP-320)."""

NO_GENERATION = -1
"""The generation of who has not been in the group yet (KIP-792)."""

NO_TIMESTAMP = -1
"""The timestamp of a message that has none (format v0)."""

Headers = tuple[tuple[str, bytes | None], ...]


def is_offset(value: object) -> bool:
    """Whether `value` can be an offset: an int from 0 to 2**63 - 2 (the next one must fit in int64 too)."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 - 1


class TimestampType(IntEnum):
    """Who set a message's timestamp (KIP-32)."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic name, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Message(msgspec.Struct, frozen=True, gc=False):
    """One record as a handler sees it. Keys and values are bytes or None, exactly as Kafka has them.

    `timestamp` is milliseconds since the epoch, or NO_TIMESTAMP; `leader_epoch` is NO_LEADER_EPOCH
    where the record format carries none. A msgspec.Struct because there are millions of them: compiled code makes it in
    a quarter of the time that a NamedTuple takes, a tenth of a frozen attrs class, and as what is in it can be in no
    cycle, the garbage collector need not look at it.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    leader_epoch: int = NO_LEADER_EPOCH

    @property
    def topic_partition(self) -> TopicPartition:
        """Where it was read."""
        return TopicPartition(self.topic, self.partition)

    def replace(self, **changes: Any) -> Message:
        """The same, but for these fields."""
        return msgspec.structs.replace(self, **changes)


@attrs.frozen(slots=True)
class Generation:
    """One round of a group, seen by one member of it. `id` fences commits and heartbeats."""

    id: int
    member_id: str
    protocol: str
    """The assignor the group chose for this generation."""
    is_leader: bool = False


@attrs.frozen(slots=True)
class GroupMetadata:
    """Who commits: what a transactional producer sends along with a group's offsets, to be fenced by it (KIP-447)."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@attrs.frozen(slots=True)
class CommittedOffset:
    """What a group has committed for a partition: the next offset to read, and the committer's metadata."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_LEADER_EPOCH


@attrs.frozen(slots=True)
class LogRange:
    """What a partition's log has: the offsets from `start` on, up to but not including `end`, the next one to be
    written (the high water mark: what stands beyond is not safe on all replicas yet, and is shown to nobody)."""

    start: int
    end: int


Assignment = Mapping[str, tuple[int, ...]]
"""topic -> its assigned partitions, ascending."""


def topic_partitions(assignment: Assignment) -> list[TopicPartition]:
    """The assignment as a sorted list of topic-partitions."""
    return sorted(TopicPartition(topic, p) for topic, ps in assignment.items() for p in ps)


def by_topic(partitions: Iterator[TopicPartition] | Sequence[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Topic-partitions grouped by topic, both ascending."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return {topic: tuple(ps) for topic, ps in grouped.items()}
