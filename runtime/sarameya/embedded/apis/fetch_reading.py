"""What a fetch reads, and when it has enough: every partition looked at on its own, in turn. Pure.

`apis.fetch` has the wire's side of it, `fetch_sessions` says which partitions a fetch reads and which are told of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from sarameya.embedded.apis.leader_epochs import check_leader_epoch
from sarameya.embedded.cluster_state import ClusterState
from sarameya.embedded.fetch_sessions import Answer, FetchContext, FetchPartition, PartitionRead, Reads
from sarameya.embedded.partition_log import EpochEnd, PartitionLog
from sarameya.embedded.purgatory import DelayedOperation
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition


@attrs.frozen(slots=True)
class FetchLimits:
    """How much a fetch wants to read, in all (bytes), and how long it waits for `min_bytes` of it (seconds)."""

    max_wait: float
    min_bytes: int
    max_bytes: int


class DelayedFetch(DelayedOperation):
    """A fetch that waits for `min_bytes`, for something to say about a partition, or for `max_wait`."""

    def __init__(
        self,
        cluster: ClusterState,
        node_id: int,
        context: FetchContext,
        limits: FetchLimits,
        now: float,
        reply: Callable[[Answer], None],
    ) -> None:
        super().__init__(now + limits.max_wait)
        self._cluster = cluster
        self._node_id = node_id
        self._context = context
        self._limits = limits
        self._reply = reply
        self._unknown: Reads = []
        self._wanted: list[FetchPartition] = []
        for wanted in context.partitions:
            unknown = self._unknown_error(wanted)
            if unknown is None:
                self._wanted.append(wanted)
            else:
                self._unknown.append((wanted, PartitionRead(error=unknown, aborted=())))

    def _unknown_error(self, wanted: FetchPartition) -> ErrorCode | None:
        """What is said of a partition that does not exist. As in Kafka it comes last, and does not end the wait."""
        topics = self._cluster.topics
        if wanted.topic is None and wanted.topic_id is not None:
            topic = topics.by_id(wanted.topic_id)
            wanted.topic = topic.name if topic else None
        if wanted.topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        known = topics.get(wanted.topic)
        if known is None or not 0 <= wanted.partition < len(known.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None

    def keys(self) -> Iterator[TopicPartition]:
        """What it waits for."""
        return (TopicPartition(wanted.topic or "", wanted.partition) for wanted in self._wanted)

    def can_complete(self) -> bool:
        missing = min(self._limits.min_bytes, self._limits.max_bytes)
        for wanted in self._wanted:
            try:
                log = self._log(wanted)
                missing -= min(log.readable_bytes(wanted.fetch_offset), wanted.max_bytes)
            except Refused:
                return True
            if _diverging(log, wanted) is not None:
                return True
            if missing <= 0:
                return True
        return missing <= 0 or not self._wanted

    def on_complete(self, now: float) -> None:
        budget = self._limits.max_bytes
        is_first = True
        reads: Reads = []
        for wanted in self._wanted:
            read = self._read(wanted, budget, is_first)
            reads.append((wanted, read))
            if read.records:
                # Only the answer's first batch may be larger than asked for (KIP-74).
                is_first = False
                budget -= len(read.records)
        self._reply(self._context.answer(reads + self._unknown, now))

    def _log(self, wanted: FetchPartition) -> PartitionLog:
        assert wanted.topic is not None
        partition = self._cluster.led_partition(self._node_id, wanted.topic, wanted.partition, wanted.topic_id)
        check_leader_epoch(partition.log, wanted.leader_epoch)
        return partition.log

    def _read(self, wanted: FetchPartition, budget: int, is_first: bool) -> PartitionRead:
        try:
            log = self._log(wanted)
            diverging = _diverging(log, wanted)
            size = max(min(wanted.max_bytes, budget), 0)
            records = b"" if diverging else log.read(wanted.fetch_offset, size, at_least_one=is_first)
        except Refused as refused:
            return PartitionRead(error=refused.code, leader=self._leader(wanted, refused.code))
        return PartitionRead(
            high_watermark=log.high_watermark,
            last_stable_offset=log.high_watermark,
            log_start_offset=log.start_offset,
            records=records,
            diverging=diverging,
        )

    def _leader(self, wanted: FetchPartition, code: ErrorCode) -> tuple[int, int] | None:
        """Who leads it and since which epoch, for who looks in the wrong place (KIP-951)."""
        if code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH) or wanted.topic is None:
            return None
        partition = self._cluster.topics.partition(wanted.topic, wanted.partition)
        return partition.leader, partition.log.leader_epoch


def _diverging(log: PartitionLog, wanted: FetchPartition) -> EpochEnd | None:
    """Where the reader's log and this one parted, if its last fetched epoch tells that they did (KIP-595).

    Raises Refused with OFFSET_OUT_OF_RANGE where the epoch is unknown here, or the reader is before the log.
    """
    if wanted.last_fetched_epoch < 0:
        return None
    end = log.epoch_end(wanted.last_fetched_epoch)
    if end.end_offset < 0 or wanted.fetch_offset < log.start_offset:
        raise Refused(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.partition}: nothing is known of epoch {wanted.last_fetched_epoch}, or offset {wanted.fetch_offset} "
            f"is before the log's start",
        )
    if end.end_offset >= wanted.fetch_offset and end.epoch >= wanted.last_fetched_epoch:
        return None
    return end
