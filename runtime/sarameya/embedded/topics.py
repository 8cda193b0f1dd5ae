"""The topics of a cluster, their partitions, logs and replicas. Pure.

This module decides legal topic names, the placement of replicas, and the effect of a leader change on a log.
`cluster_state` handles its other effects (on held requests, and on groups that move).
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Collection, Iterator, Sequence

import attrs

from sarameya.embedded.log.partition_log import DEFAULT_MAX_BATCH_SIZE, PartitionLog
from sarameya.embedded.refusal import Refused
from sarameya.embedded.replicas import ReplicaLag, Replicas
from sarameya.error_codes import ErrorCode
from sarameya.model import TOPIC_NAME, TopicPartition
from sarameya.protocol.cluster.offsets_partition import OFFSETS_TOPIC

MAX_PARTITIONS = 10_000
"""Maximum partitions of one topic; also Kafka's maximum in one request."""


@attrs.define(slots=True, eq=False)
class EmbeddedPartition:
    """A partition: its log and its replicas. The parameter `up` has the ids of all brokers that are up."""

    topic_id: uuid.UUID
    log: PartitionLog
    replicas: Replicas
    exists: bool = True
    """False after its topic was deleted, for code that still holds a reference."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic and number of this partition."""
        return self.log.partition

    @property
    def leader(self) -> int:
        """Id of the leading broker, or NO_LEADER."""
        return self.replicas.leader

    def lead(self, node_id: int, up: Collection[int]) -> None:
        """Make another broker (or NO_LEADER) the leader, under the next leader epoch.

        If the new leader lags, the log is truncated to the end of its replica, as after an unclean election.
        """
        lag = self.replicas.lead(node_id, up)
        if lag is not None:
            self.log.truncate(lag.end_offset)
        self.log.begin_epoch(self.log.leader_epoch + 1)
        self.log.replicated_to = self.replicas.replicated_to

    def update_in_sync(self, up: Collection[int]) -> None:
        """Recompute the in-sync replicas and the high watermark after a change of brokers or followers."""
        self.replicas.update_in_sync(up)
        self.log.replicated_to = self.replicas.replicated_to

    def truncate(self, offset: int) -> None:
        """Truncate the log; see `PartitionLog.truncate`."""
        self.log.truncate(offset)
        self.replicas.truncate(offset)
        self.log.replicated_to = self.replicas.replicated_to

    def hold(self, node_id: int, lag: ReplicaLag, up: Collection[int]) -> None:
        """Hold a follower at `lag`, rounded down to whole batches.

        Raises:
            Refused: REPLICA_NOT_AVAILABLE if the broker is no follower of this partition.
            ValueError: An offset is outside the log, or below the high watermark for a replica that stays in sync.
        """
        if node_id not in self.replicas.ids or node_id == self.leader:
            raise Refused(
                ErrorCode.REPLICA_NOT_AVAILABLE,
                f"broker {node_id} does not follow {self.topic_partition} (replicas {self.replicas.ids}, led by "
                f"{self.leader})",
            )
        if not self.log.start_offset <= lag.high_watermark <= lag.end_offset <= self.log.end_offset:
            raise ValueError(f"{self.topic_partition}: {lag} is outside the log, which ends at {self.log.end_offset}")
        lag = lag.truncated(self.log.batch_boundary(lag.end_offset))
        if lag.in_sync and lag.end_offset < self.log.high_watermark:
            raise ValueError(
                f"{self.topic_partition}: a follower at {lag.end_offset} cannot be in sync, the high watermark is "
                f"{self.log.high_watermark}"
            )
        self.replicas.hold(node_id, lag)
        self.update_in_sync(up)

    def release(self, node_id: int, up: Collection[int]) -> None:
        """Let a held follower catch up."""
        self.replicas.release(node_id)
        self.update_in_sync(up)


@attrs.define(slots=True, eq=False)
class EmbeddedTopic:
    """A topic: its id and its partitions."""

    name: str
    id: uuid.UUID
    partitions: list[EmbeddedPartition]
    replication_factor: int

    @property
    def is_internal(self) -> bool:
        """True for `__consumer_offsets`."""
        return self.name == OFFSETS_TOPIC


class TopicRegistry:
    """Topics by name and by id. The id distinguishes a topic from a later one of the same name (KIP-516)."""

    def __init__(self, *, max_batch_size: int = DEFAULT_MAX_BATCH_SIZE, rng: random.Random | None = None) -> None:
        self._topics: dict[str, EmbeddedTopic] = {}
        self._by_id: dict[uuid.UUID, EmbeddedTopic] = {}
        self._max_batch_size = max_batch_size
        self._rng = rng or random.Random()

    def __iter__(self) -> Iterator[EmbeddedTopic]:
        return iter(self._topics.values())

    def get(self, name: str) -> EmbeddedTopic | None:
        """Return a topic by name, or None."""
        return self._topics.get(name)

    def by_id(self, topic_id: uuid.UUID) -> EmbeddedTopic | None:
        """Return a topic by id, or None."""
        return self._by_id.get(topic_id)

    def topic(self, name: str) -> EmbeddedTopic:
        """Return a topic by name.

        Raises:
            Refused: UNKNOWN_TOPIC_OR_PARTITION.
        """
        topic = self._topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        return topic

    def partition(self, name: str, number: int) -> EmbeddedPartition:
        """Return one partition.

        Raises:
            Refused: UNKNOWN_TOPIC_OR_PARTITION.
        """
        partitions = self.topic(name).partitions
        if not 0 <= number < len(partitions):
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {name!r} has {len(partitions)} partitions, so there is no partition {number}",
            )
        return partitions[number]

    def partitions(self) -> Iterator[EmbeddedPartition]:
        """Yield every partition of every topic."""
        for topic in self:
            yield from topic.partitions

    def create(
        self, name: str, partitions: int, brokers: Sequence[int], up: Sequence[int], replication_factor: int
    ) -> EmbeddedTopic:
        """Create a topic. Its partitions are led by the brokers that are `up`, in turn.

        The other replicas of a partition are on the brokers that follow its leader in `brokers`.

        Raises:
            Refused: As `check` does.
        """
        self.check(name, partitions)
        topic = EmbeddedTopic(name, uuid.UUID(int=self._rng.getrandbits(128), version=4), [], replication_factor)
        self._topics[name] = self._by_id[topic.id] = topic
        self._add(topic, partitions, brokers, up)
        return topic

    def check(self, name: str, partitions: int) -> None:
        """Check whether `create` would accept this topic.

        Raises:
            Refused: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS or INVALID_PARTITIONS.
        """
        if name in (".", "..") or not TOPIC_NAME.fullmatch(name):
            raise Refused(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{name!r} is not a topic name: use 1 to 249 of the characters a-z A-Z 0-9 . _ - (and not . or ..)",
            )
        if name in self._topics:
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already")
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS, f"topic {name!r}: {partitions} partitions; must be 1 to {MAX_PARTITIONS}"
            )

    def grow(self, name: str, partitions: int, brokers: Sequence[int], up: Sequence[int]) -> None:
        """Grow a topic to `partitions` partitions in all, placed as by `create`.

        Raises:
            Refused: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS if it would not grow or exceed MAX_PARTITIONS,
                or INVALID_TOPIC_EXCEPTION for an internal topic.
        """
        self.check_growth(name, partitions)
        topic = self.topic(name)
        self._add(topic, partitions - len(topic.partitions), brokers, up)

    def check_growth(self, name: str, partitions: int) -> None:
        """Check whether `grow` would accept this number of partitions. Raises as `grow` does."""
        existing = len(self._user_topic(name).partitions)
        if not existing < partitions <= MAX_PARTITIONS:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {name!r} has {existing} partitions and can grow up to {MAX_PARTITIONS}, not to {partitions}",
            )

    def delete(self, name: str) -> EmbeddedTopic:
        """Delete a topic and return it.

        Raises:
            Refused: UNKNOWN_TOPIC_OR_PARTITION, or INVALID_TOPIC_EXCEPTION for an internal topic.
        """
        topic = self._user_topic(name)
        del self._topics[name], self._by_id[topic.id]
        for partition in topic.partitions:
            partition.exists = False
        return topic

    def _user_topic(self, name: str) -> EmbeddedTopic:
        topic = self.topic(name)
        if topic.is_internal:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is an internal topic")
        return topic

    def _add(self, topic: EmbeddedTopic, partitions: int, brokers: Sequence[int], up: Sequence[int]) -> None:
        # The record of a group grows with its members, so an internal topic needs batches of any size.
        max_batch_size = 2**31 - 1 if topic.is_internal else self._max_batch_size
        first = len(topic.partitions)
        for number in range(first, first + partitions):
            log = PartitionLog(TopicPartition(topic.name, number), max_batch_size=max_batch_size)
            leader_index = brokers.index(up[number % len(up)]) if up else 0
            ids = [*brokers[leader_index:], *brokers[:leader_index]][: topic.replication_factor]
            topic.partitions.append(EmbeddedPartition(topic.id, log, Replicas(ids, up)))
