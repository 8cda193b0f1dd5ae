"""The topics of a cluster: names, ids, partitions with their logs, and which broker leads each.

Pure. Owns what a topic may be called and how leaders are spread and moved; what follows from a move
(held requests, groups that change hands) is `cluster_state`'s.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator, Sequence

import attrs

from sarameya.embedded.partition_log import DEFAULT_MAX_BATCH_SIZE, PartitionLog
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition
from sarameya.protocol.offsets_partition import OFFSETS_TOPIC

NO_LEADER = -1

MAX_PARTITIONS = 10_000
"""Of one topic; Kafka makes no more at once either."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@attrs.define(slots=True, eq=False)
class Partition:
    """One partition: its log, and the id of the broker that leads it (NO_LEADER while none can)."""

    log: PartitionLog
    leader: int

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.partition


@attrs.define(slots=True, eq=False)
class Topic:
    name: str
    id: uuid.UUID
    partitions: list[Partition]

    @property
    def is_internal(self) -> bool:
        return self.name == OFFSETS_TOPIC


class Topics:
    """The topics by name, and by the id that tells a topic from a later one of the same name (KIP-516)."""

    def __init__(self, *, max_batch_size: int = DEFAULT_MAX_BATCH_SIZE, rng: random.Random | None = None) -> None:
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[uuid.UUID, Topic] = {}
        self._max_batch_size = max_batch_size
        self._rng = rng or random.Random()

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics.values())

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def topic(self, name: str) -> Topic:
        """Raises Refused with UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self._topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return topic

    def partition(self, name: str, number: int) -> Partition:
        """Raises Refused with UNKNOWN_TOPIC_OR_PARTITION."""
        partitions = self.topic(name).partitions
        if not 0 <= number < len(partitions):
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {name!r} has {len(partitions)} partitions, none with number {number}",
            )
        return partitions[number]

    def partitions(self) -> Iterator[Partition]:
        """Every partition of every topic."""
        for topic in self:
            yield from topic.partitions

    def create(self, name: str, partitions: int, brokers: Sequence[int]) -> Topic:
        """Make a topic; partition n is led by the n-th of `brokers`, round and round.

        Raises Refused as `check` does.
        """
        self.check(name, partitions)
        topic = Topic(name, uuid.UUID(int=self._rng.getrandbits(128), version=4), [])
        self._topics[name] = self._by_id[topic.id] = topic
        self._add(topic, partitions, brokers)
        return topic

    def check(self, name: str, partitions: int) -> None:
        """Raises Refused (INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS) if `create` would."""
        if name in (".", "..") or not _LEGAL_NAME.fullmatch(name):
            raise Refused(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{name!r} is no topic name: 1 to 249 of the characters a-z A-Z 0-9 . _ - (and not . or ..)",
            )
        if name in self._topics:
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists")
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS, f"topic {name!r}: {partitions} partitions, not 1 to {MAX_PARTITIONS}"
            )

    def grow(self, name: str, partitions: int, brokers: Sequence[int]) -> None:
        """Give a topic more partitions, up to `partitions` in all.

        Raises Refused: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS if it would not grow, or
        INVALID_TOPIC_EXCEPTION for an internal topic.
        """
        self.check_growth(name, partitions)
        topic = self.topic(name)
        self._add(topic, partitions - len(topic.partitions), brokers)

    def check_growth(self, name: str, partitions: int) -> None:
        """Raises Refused if `grow` would."""
        existing = len(self._own(name).partitions)
        if not existing < partitions <= MAX_PARTITIONS:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {name!r} has {existing} partitions and may have up to {MAX_PARTITIONS}, not {partitions}",
            )

    def delete(self, name: str) -> Topic:
        """Raises Refused: UNKNOWN_TOPIC_OR_PARTITION, or INVALID_TOPIC_EXCEPTION for an internal topic."""
        topic = self._own(name)
        del self._topics[name], self._by_id[topic.id]
        return topic

    def _own(self, name: str) -> Topic:
        topic = self.topic(name)
        if topic.is_internal:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is the brokers' own topic")
        return topic

    def _add(self, topic: Topic, partitions: int, brokers: Sequence[int]) -> None:
        # A group with many members is one record, however large.
        max_batch_size = 2**31 - 1 if topic.is_internal else self._max_batch_size
        first = len(topic.partitions)
        for number in range(first, first + partitions):
            log = PartitionLog(TopicPartition(topic.name, number), max_batch_size=max_batch_size)
            leader = brokers[number % len(brokers)] if brokers else NO_LEADER
            topic.partitions.append(Partition(log, leader))
