"""Common data types: partitions, messages, generations, assignments.

Frozen data only, without behaviour. Field names are Kafka's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import attrs
import msgspec

from sarameya.type_variables import K_co, V_co

NO_LEADER_EPOCH = -1
"""Leader epoch of a record whose format or broker has none (KIP-320)."""

NO_GENERATION = -1
"""Generation of a client that was not in the group yet (KIP-792)."""

NO_TIMESTAMP = -1
"""Timestamp of a message that has none (format v0)."""

TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Characters and length of a topic's name."""

Headers = tuple[tuple[str, bytes | None], ...]


def is_offset(value: object) -> bool:
    """Return whether `value` can be an offset: an int from 0 to 2**63 - 2 (the next offset must fit in int64, too)."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 - 1


class TimestampType(IntEnum):
    """Origin of a message's timestamp (KIP-32)."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class TopicPartition(NamedTuple):
    """A partition of a topic; sorts by topic name, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Message(msgspec.Struct, Generic[V_co, K_co], frozen=True, gc=False):
    """A record as a handler gets it. Keys and values are bytes or None, as in Kafka.

    A `MessageHandler` may want others: `Message[Order]` has a value of the type Order, and `Message[Order, str]` also
    has a key that is a str.

    `timestamp` is in milliseconds since 1970, or NO_TIMESTAMP. `leader_epoch` is NO_LEADER_EPOCH if the record format
    has none. The class is a msgspec.Struct, since there are millions of messages: compiled code creates a Struct in a
    quarter of the time of a NamedTuple, and in a tenth of the time of a frozen attrs class. A message cannot be part of
    a cycle, so the garbage collector need not track it.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: K_co
    value: V_co
    headers: Headers = ()
    leader_epoch: int = NO_LEADER_EPOCH

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)

    def replace(self, **changes: Any) -> Message[V_co, K_co]:
        """Return a copy with these fields changed."""
        return msgspec.structs.replace(self, **changes)


class DecodedMessage(Message[Any, Any], frozen=True, gc=True):
    """A message whose key or value was decoded.

    The garbage collector tracks it, since a decoded value may refer to its message.
    """


@attrs.frozen(slots=True)
class Generation:
    """A generation of a group, as one member gets it. `id` fences commits and heartbeats."""

    id: int
    member_id: str
    protocol: str
    """Assignor that the group chose for this generation."""
    is_leader: bool = False


@attrs.frozen(slots=True)
class GroupMetadata:
    """Identity of a member.

    A transactional producer sends it with the group's offsets, so that the coordinator can fence it (KIP-447).
    """

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@attrs.frozen(slots=True)
class CommittedOffset:
    """A group's commit for a partition: the next offset to read, and the committer's metadata."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_LEADER_EPOCH


@attrs.frozen(slots=True)
class LogRange:
    """Offsets in a partition's log, from `start` up to but not including `end`.

    `end` is the high watermark: later records are not on all in-sync replicas yet, and no consumer gets them.
    """

    start: int
    end: int


Assignment = Mapping[str, tuple[int, ...]]
"""topic -> its assigned partitions, in ascending order."""


def topic_partitions(assignment: Assignment) -> list[TopicPartition]:
    """Return the assignment as a sorted list of topic-partitions."""
    return sorted(TopicPartition(topic, p) for topic, ps in assignment.items() for p in ps)


def by_topic(partitions: Iterator[TopicPartition] | Sequence[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Return the partition numbers of each topic. Topics and numbers are in ascending order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return {topic: tuple(ps) for topic, ps in grouped.items()}
