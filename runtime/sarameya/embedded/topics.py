"""The topics of a cluster: names, ids, partitions with their logs and replicas.

Pure. Owns what a topic may be called, how its replicas are spread, and what a change of its leader does to a log; what
else follows from that (held requests, groups that change hands) is `cluster_state`'s.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Collection, Iterator, Sequence

import attrs

from sarameya.embedded.log.partition_log import DEFAULT_MAX_BATCH_SIZE, PartitionLog
from sarameya.embedded.refusal import Refused
from sarameya.embedded.replicas import ReplicaLag, Replicas
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition
from sarameya.protocol.offsets_partition import OFFSETS_TOPIC

MAX_PARTITIONS = 10_000
"""Of one topic; Kafka makes no more at once either."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@attrs.define(slots=True, eq=False)
class EmbeddedPartition:
    """One partition: its log, and the brokers that have it. `up`, where it is asked for: the brokers that are up."""

    topic_id: uuid.UUID
    log: PartitionLog
    replicas: Replicas
    exists: bool = True
    """False for who still has it in hand when its topic is deleted."""

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.partition

    @property
    def leader(self) -> int:
        """The id of the broker that leads it; NO_LEADER while none can."""
        return self.replicas.leader

    def lead(self, node_id: int, up: Collection[int]) -> None:
        """Another broker leads, or none, under the next epoch. One that lags has less than was written: the rest goes,
        as after an unclean election."""
        lag = self.replicas.lead(node_id, up)
        if lag is not None:
            self.log.truncate(lag.end_offset)
        self.log.begin_epoch(self.log.leader_epoch + 1)
        self.log.replicated_to = self.replicas.replicated_to

    def settle(self, up: Collection[int]) -> None:
        """Brokers or followers have come or gone: who is in sync, and what all of those have, may be otherwise."""
        self.replicas.settle(up)
        self.log.replicated_to = self.replicas.replicated_to

    def truncate(self, offset: int) -> None:
        """Cut the log off; see `PartitionLog.truncate`."""
        self.log.truncate(offset)
        self.replicas.cut_off(offset)
        self.log.replicated_to = self.replicas.replicated_to

    def hold(self, node_id: int, lag: ReplicaLag, up: Collection[int]) -> None:
        """Let a follower get no further than it is said to have. It has whole batches only: what it has of one goes.

        Raises Refused with REPLICA_NOT_AVAILABLE for a broker that does not follow here, ValueError for offsets that
        cannot be: outside the log, or, for one in sync, before what readers have been shown.
        """
        if node_id not in self.replicas.ids or node_id == self.leader:
            raise Refused(
                ErrorCode.REPLICA_NOT_AVAILABLE,
                f"broker {node_id} does not follow {self.topic_partition} (replicas {self.replicas.ids}, led by "
                f"{self.leader})",
            )
        if not self.log.start_offset <= lag.high_watermark <= lag.end_offset <= self.log.end_offset:
            raise ValueError(
                f"{self.topic_partition}: no follower can be at {lag}, the log ends at {self.log.end_offset}"
            )
        lag = lag.cut_off(self.log.batch_boundary(lag.end_offset))
        if lag.in_sync and lag.end_offset < self.log.high_watermark:
            raise ValueError(
                f"{self.topic_partition}: a follower at {lag.end_offset} is not in sync, readers have been shown what "
                f"stands before {self.log.high_watermark}"
            )
        self.replicas.hold(node_id, lag)
        self.settle(up)

    def release(self, node_id: int, up: Collection[int]) -> None:
        """Let a follower catch up, and keep up."""
        self.replicas.release(node_id)
        self.settle(up)


@attrs.define(slots=True, eq=False)
class EmbeddedTopic:
    name: str
    id: uuid.UUID
    partitions: list[EmbeddedPartition]
    replication_factor: int

    @property
    def is_internal(self) -> bool:
        return self.name == OFFSETS_TOPIC


class TopicRegistry:
    """The topics by name, and by the id that tells a topic from a later one of the same name (KIP-516)."""

    def __init__(self, *, max_batch_size: int = DEFAULT_MAX_BATCH_SIZE, rng: random.Random | None = None) -> None:
        self._topics: dict[str, EmbeddedTopic] = {}
        self._by_id: dict[uuid.UUID, EmbeddedTopic] = {}
        self._max_batch_size = max_batch_size
        self._rng = rng or random.Random()

    def __iter__(self) -> Iterator[EmbeddedTopic]:
        return iter(self._topics.values())

    def get(self, name: str) -> EmbeddedTopic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: uuid.UUID) -> EmbeddedTopic | None:
        return self._by_id.get(topic_id)

    def topic(self, name: str) -> EmbeddedTopic:
        """Raises Refused with UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self._topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return topic

    def partition(self, name: str, number: int) -> EmbeddedPartition:
        """Raises Refused with UNKNOWN_TOPIC_OR_PARTITION."""
        partitions = self.topic(name).partitions
        if not 0 <= number < len(partitions):
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {name!r} has {len(partitions)} partitions, none with number {number}",
            )
        return partitions[number]

    def partitions(self) -> Iterator[EmbeddedPartition]:
        """Every partition of every topic."""
        for topic in self:
            yield from topic.partitions

    def create(
        self, name: str, partitions: int, brokers: Sequence[int], up: Sequence[int], replication_factor: int
    ) -> EmbeddedTopic:
        """Make a topic; partition n is led by the n-th of the brokers that are `up`, round and round.

        Its other replicas are on those of `brokers` behind that one. Raises Refused as `check` does.
        """
        self.check(name, partitions)
        topic = EmbeddedTopic(name, uuid.UUID(int=self._rng.getrandbits(128), version=4), [], replication_factor)
        self._topics[name] = self._by_id[topic.id] = topic
        self._add(topic, partitions, brokers, up)
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

    def grow(self, name: str, partitions: int, brokers: Sequence[int], up: Sequence[int]) -> None:
        """Give a topic more partitions, up to `partitions` in all, dealt to brokers as by `create`.

        Raises Refused: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS if it would not grow, or
        INVALID_TOPIC_EXCEPTION for an internal topic.
        """
        self.check_growth(name, partitions)
        topic = self.topic(name)
        self._add(topic, partitions - len(topic.partitions), brokers, up)

    def check_growth(self, name: str, partitions: int) -> None:
        """Raises Refused if `grow` would."""
        existing = len(self._own(name).partitions)
        if not existing < partitions <= MAX_PARTITIONS:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {name!r} has {existing} partitions and may have up to {MAX_PARTITIONS}, not {partitions}",
            )

    def delete(self, name: str) -> EmbeddedTopic:
        """Raises Refused: UNKNOWN_TOPIC_OR_PARTITION, or INVALID_TOPIC_EXCEPTION for an internal topic."""
        topic = self._own(name)
        del self._topics[name], self._by_id[topic.id]
        for partition in topic.partitions:
            partition.exists = False
        return topic

    def _own(self, name: str) -> EmbeddedTopic:
        topic = self.topic(name)
        if topic.is_internal:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is the brokers' own topic")
        return topic

    def _add(self, topic: EmbeddedTopic, partitions: int, brokers: Sequence[int], up: Sequence[int]) -> None:
        # A group with many members is one record, however large.
        max_batch_size = 2**31 - 1 if topic.is_internal else self._max_batch_size
        first = len(topic.partitions)
        for number in range(first, first + partitions):
            log = PartitionLog(TopicPartition(topic.name, number), max_batch_size=max_batch_size)
            first = brokers.index(up[number % len(up)]) if up else 0
            ids = [*brokers[first:], *brokers[:first]][: topic.replication_factor]
            topic.partitions.append(EmbeddedPartition(topic.id, log, Replicas(ids, up)))
