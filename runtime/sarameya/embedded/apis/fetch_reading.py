"""Reads the partitions of a fetch, and decides when it has enough bytes. Pure.

`apis.fetch` has the wire format. `fetch_sessions` decides which partitions a fetch reads and which ones it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import attrs

from sarameya.embedded.cluster_state import ClusterState
from sarameya.embedded.fetch_sessions import (
    FetchContext,
    FetchPartition,
    FetchSessionResponse,
    PartitionReadResult,
    Reads,
)
from sarameya.embedded.log.epoch_cache import EpochEnd
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.embedded.purgatory import DelayedOperation
from sarameya.embedded.refusal import Refused
from sarameya.embedded.topics import EmbeddedPartition
from sarameya.error_codes import ErrorCode
from sarameya.model import NO_LEADER_EPOCH, TopicPartition

READ_COMMITTED = 1
"""The isolation level (KIP-98) in requests."""

_LEADER_CHANGED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Error codes that are returned together with the current leader (KIP-951)."""


@attrs.frozen(slots=True)
class FetchLimits:
    """The limits of a fetch: the seconds to wait for `min_bytes`, and the most bytes in all."""

    max_wait: float
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    """Read only ended transactions, and return the aborted ones (KIP-98)."""


class ReadableReplica(NamedTuple):
    """The log of one replica, and its high watermark. A follower may have less of the log than the leader."""

    log: PartitionLog
    high_watermark: int
    preferred: int = -1
    """The broker that the consumer should read from instead (KIP-392); -1: none."""

    def limit(self, read_committed: bool) -> int:
        """Return the offset before which the consumer may read."""
        return self.log.last_stable_offset(self.high_watermark) if read_committed else self.high_watermark


class ReadingBroker:
    """A broker that one consumer reads from.

    As a follower, the broker serves consumers that can read from followers (`serves_as_follower`). As a leader, it
    sends them to a follower in their `rack`, if the cluster is configured so.
    """

    def __init__(self, cluster: ClusterState, node_id: int, *, serves_as_follower: bool, rack: str) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._serves_as_follower = serves_as_follower
        self._rack = rack if serves_as_follower and cluster.settings.rack_aware_reads else ""

    def find(self, requested: FetchPartition) -> EmbeddedPartition | ErrorCode:
        """Return the partition, or the error code if it does not exist or its topic id is unknown (yet)."""
        if requested.found is not None and requested.found.exists:
            return requested.found
        topics = self._cluster.topics
        if requested.topic is None and requested.topic_id is not None:
            topic = topics.by_id(requested.topic_id)
            requested.topic = topic.name if topic else None
        if requested.topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        try:
            found = topics.partition(requested.topic, requested.partition)
        except Refused as refused:
            return refused.code
        requested.found = found if requested.topic_id in (None, found.topic_id) else None
        return found

    def is_quiet(self, requested: FetchPartition) -> bool:
        """Return True if there is clearly nothing new: the consumer is at the log end, and knows the high watermark.

        This is a shortcut for thousands of quiet partitions: `source` and its caller would come to the same result.
        False only means that they must be called.
        """
        partition = requested.found
        if partition is None or not partition.exists:
            return False
        log = partition.log
        return (
            log.end_offset == requested.fetch_offset == requested.high_watermark
            and log.start_offset == requested.log_start_offset
            and log.replicated_to is None
            and partition.replicas.leader == self._node_id
            and requested.leader_epoch in (NO_LEADER_EPOCH, log.leader_epoch)
            and requested.last_fetched_epoch == NO_LEADER_EPOCH
            and not self._rack
        )

    def source(self, requested: FetchPartition, partition: EmbeddedPartition) -> ReadableReplica:
        """Return the replica to read from.

        Raises:
            Refused: UNKNOWN_TOPIC_OR_PARTITION, INCONSISTENT_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
                UNKNOWN_LEADER_EPOCH or OFFSET_OUT_OF_RANGE.
        """
        if not partition.exists:
            partition = self._cluster.topics.partition(requested.topic or "", requested.partition)
        if requested.topic_id is not None and requested.topic_id != partition.topic_id:
            raise Refused(ErrorCode.INCONSISTENT_TOPIC_ID, f"topic {requested.topic!r} was recreated with another id")
        replicas, log = partition.replicas, partition.log
        leads = replicas.leader == self._node_id
        if not leads and self._node_id not in replicas.ids:
            raise self._not_here(partition)
        log.check_leader_epoch(requested.leader_epoch)
        if leads:
            return ReadableReplica(log, log.high_watermark, self._preferred(requested, partition) if self._rack else -1)
        if not self._serves_as_follower:
            raise self._not_here(partition)
        lag = replicas.lags.get(self._node_id)
        if lag is None:
            return ReadableReplica(log, log.high_watermark)
        if requested.fetch_offset > lag.end_offset:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{log.partition}: broker {self._node_id} has the log up to {lag.end_offset}, not up to "
                f"{requested.fetch_offset}",
            )
        return ReadableReplica(log, min(lag.high_watermark, log.high_watermark))

    def _preferred(self, requested: FetchPartition, partition: EmbeddedPartition) -> int:
        log, racks = partition.log, self._cluster.settings.racks
        nearest = partition.replicas.nearest(
            self._rack, racks, requested.fetch_offset, log_start=log.start_offset, log_end=log.end_offset
        )
        return -1 if nearest is None else nearest

    def _not_here(self, partition: EmbeddedPartition) -> Refused:
        return Refused(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {self._node_id} does not lead {partition.topic_partition}, broker {partition.leader} does",
        )


class DelayedFetch(DelayedOperation):
    """A fetch that waits for `min_bytes`, for an error or a preferred replica of a partition, or for `max_wait`."""

    def __init__(
        self,
        broker: ReadingBroker,
        context: FetchContext,
        limits: FetchLimits,
        now: float,
        reply: Callable[[FetchSessionResponse], None],
    ) -> None:
        super().__init__(now + limits.max_wait)
        self._broker = broker
        self._context = context
        self._limits = limits
        self._reply = reply
        self._waits = False
        self._wanted: list[tuple[FetchPartition, EmbeddedPartition]] = []
        self._unknown: Reads = []
        """Partitions that do not exist come last, as in Kafka, and do not end the wait for the others."""
        for requested in context.partitions:
            found = broker.find(requested)
            if isinstance(found, ErrorCode):
                self._unknown.append((requested, PartitionReadResult(error=found, aborted=())))
            else:
                self._wanted.append((requested, found))

    def keys(self) -> Iterator[TopicPartition]:
        """Yield the partitions to wait for."""
        return (partition.log.partition for _, partition in self._wanted)

    def can_complete(self) -> bool:
        missing = min(self._limits.min_bytes, self._limits.max_bytes)
        for requested, partition in self._wanted:
            if self._broker.is_quiet(requested):
                continue
            try:
                source = self._broker.source(requested, partition)
                if source.preferred >= 0 or _diverging(source.log, requested) is not None:
                    return True
                # If retention overtakes a waiting consumer, the fetch keeps waiting.
                offset = max(requested.fetch_offset, source.log.start_offset) if self._waits else requested.fetch_offset
                limit = source.limit(self._limits.read_committed)
                missing -= min(source.log.readable_bytes(offset, limit), requested.max_bytes)
            except Refused:
                return True
            if missing <= 0:
                return True
        self._waits = True
        return missing <= 0 or not self._wanted

    def on_complete(self, now: float) -> None:
        budget = self._limits.max_bytes
        is_first = True
        reads: Reads = []
        for requested, partition in self._wanted:
            if not self._context.returns_all and self._broker.is_quiet(requested):
                continue
            read = self._read(requested, partition, budget, is_first)
            reads.append((requested, read))
            if read.records:
                # Only the response's first batch may exceed the limit (KIP-74).
                is_first = False
                budget -= len(read.records)
        self._reply(self._context.answer(reads + self._unknown, now))

    def _read(
        self, requested: FetchPartition, partition: EmbeddedPartition, budget: int, is_first: bool
    ) -> PartitionReadResult:
        try:
            source = self._broker.source(requested, partition)
            diverging = None if source.preferred >= 0 else _diverging(source.log, requested)
            records, aborted = b"", None
            if source.preferred < 0 and diverging is None:
                records, aborted = self._records(requested, source, budget, is_first)
        except Refused as refused:
            leader = (partition.leader, partition.log.leader_epoch) if refused.code in _LEADER_CHANGED else None
            return PartitionReadResult(error=refused.code, leader=leader)
        return PartitionReadResult(
            high_watermark=source.high_watermark,
            last_stable_offset=source.limit(read_committed=True),
            log_start_offset=source.log.start_offset,
            records=records,
            diverging=diverging,
            aborted=aborted,
            preferred_read_replica=source.preferred,
        )

    def _records(
        self, requested: FetchPartition, source: ReadableReplica, budget: int, is_first: bool
    ) -> tuple[bytes, list[tuple[int, int]] | None]:
        log, committed = source.log, self._limits.read_committed
        size = max(min(requested.max_bytes, budget), 0)
        records = log.read(requested.fetch_offset, size, source.limit(committed), at_least_one=is_first)
        return records, log.aborted_transactions(requested.fetch_offset, len(records)) if committed else None


def _diverging(log: PartitionLog, wanted: FetchPartition) -> EpochEnd | None:
    """Return the point where the consumer's log and this one diverged, if its last fetched epoch shows it (KIP-595).

    Raises:
        Refused: OFFSET_OUT_OF_RANGE if the epoch is unknown, or the consumer is before the log start.
    """
    if wanted.last_fetched_epoch < 0:
        return None
    end = log.epoch_end(wanted.last_fetched_epoch)
    if end.end_offset < 0 or wanted.fetch_offset < log.start_offset:
        raise Refused(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.partition}: epoch {wanted.last_fetched_epoch} is unknown, or offset {wanted.fetch_offset} is before "
            f"the log start",
        )
    if end.end_offset >= wanted.fetch_offset and end.epoch >= wanted.last_fetched_epoch:
        return None
    return end
