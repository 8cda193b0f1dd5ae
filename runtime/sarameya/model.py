"""The nouns every room shares: partitions, messages, batches, generations, assignments.

Owns nothing and does nothing; frozen data only. Field names are Kafka's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import attrs

if TYPE_CHECKING:
    import pyarrow

NO_LEADER_EPOCH = -1
"""The leader epoch of a record whose format or broker does not carry one (KIP-320)."""

NO_TIMESTAMP = -1
"""The timestamp of a message that has none (format v0)."""

Headers = tuple[tuple[str, bytes | None], ...]


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


class Message(NamedTuple):
    """One record as a handler sees it. Keys and values are bytes or None, exactly as Kafka has them.

    `timestamp` is milliseconds since the epoch, or NO_TIMESTAMP; `leader_epoch` is NO_LEADER_EPOCH
    where the record format carries none. A tuple because there are millions of them: nothing else that is
    immutable is made as fast in Python (a frozen attrs class takes three times as long).
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
        return TopicPartition(self.topic, self.partition)


@attrs.frozen(slots=True, order=False, eq=False)
class MessageBatch:
    """A run of one partition's messages, in offset order, none hidden between them but what the log hides.

    `next_offset` is the position behind the batch: at least `messages[-1].offset + 1`, more where control
    records or compacted gaps follow. Marking `next_offset` is always right. `size_bytes` is the size
    on the wire. A batch is never empty.
    """

    topic: str
    partition: int
    messages: Sequence[Message]
    next_offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    size_bytes: int = 0

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def first_offset(self) -> int:
        return self.messages[0].offset

    @property
    def last_offset(self) -> int:
        return self.messages[-1].offset

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def to_arrow(self) -> pyarrow.Table:
        """The batch as Arrow columns, named and typed as Spark's Kafka source names them.

        Columns: key binary, value binary, topic string, partition int32, offset int64,
        timestamp timestamp[us, UTC], timestampType int32, headers list<struct<key string, value binary>>.
        Raises ImportError if pyarrow is not installed (`pip install 'sarameya[spark]'`).
        """
        from sarameya.arrow import batch_to_arrow

        return batch_to_arrow(self)


@attrs.frozen(slots=True)
class Generation:
    """One round of a group, seen by one member of it. `id` fences commits and heartbeats."""

    id: int
    member_id: str
    protocol: str
    """The assignor the group chose for this generation."""
    is_leader: bool = False


@attrs.frozen(slots=True)
class CommittedOffset:
    """What a group has committed for a partition: the next offset to read, and the committer's metadata."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_LEADER_EPOCH


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
