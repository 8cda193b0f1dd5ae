"""Fetch: batches out of logs, as soon as there are enough of them or the client has waited enough.

Fetch sessions (KIP-227) are not kept: answering session id 0 tells the client so, and it names all its
partitions every time. There are no transactions, so both isolation levels read alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka.protocol.consumer import FetchResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.apis.leader_epochs import check_leader_epoch
from sarameya.embedded.partition_log import PartitionLog
from sarameya.embedded.purgatory import DelayedOperation
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition

_Topic = FetchResponse.FetchableTopicResponse
_Partition = _Topic.PartitionData

_NEW_SESSION, _NO_SESSION = 0, -1

_CONCERN_THE_SESSION = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Codes that an answer bears as a whole (KIP-227); any other is said of each partition."""


def answer(call: Call) -> None:
    if call.body.session_epoch not in (_NEW_SESSION, _NO_SESSION):
        call.reply(refuse(call.body, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        return
    fetch = DelayedFetch(call)
    call.cluster.fetches.try_complete_else_watch(fetch, fetch.partitions(), call.now)


def refuse(body: Any, code: ErrorCode) -> Any:
    if code in _CONCERN_THE_SESSION:
        return FetchResponse(error_code=code, responses=[])
    return FetchResponse(
        error_code=ErrorCode.NONE,
        responses=[
            _Topic(
                topic=topic.topic,
                partitions=[_error(wanted.partition, code) for wanted in topic.partitions],
            )
            for topic in body.topics
        ],
    )


class DelayedFetch(DelayedOperation):
    """A fetch that waits for `min_bytes`, for something to say about a partition, or for `max_wait_ms`."""

    def __init__(self, call: Call) -> None:
        super().__init__(call.now + max(call.body.max_wait_ms, 0) / 1000)
        self._call = call

    def partitions(self) -> Iterator[TopicPartition]:
        """What it waits for; a client may name a partition twice."""
        return (TopicPartition(topic, wanted.partition) for topic, wanted in self._wanted())

    def can_complete(self) -> bool:
        missing = self._call.body.min_bytes
        waits = False
        for topic, wanted in self._wanted():
            waits = True
            try:
                log = self._log(topic, wanted)
                missing -= min(log.readable_bytes(wanted.fetch_offset), wanted.partition_max_bytes)
            except Refused:
                return True
            if _diverging(log, wanted) is not None:
                return True
        return missing <= 0 or not waits

    def on_complete(self, now: float) -> None:
        budget = self._call.body.max_bytes
        is_first = True
        topics = []
        for topic in self._call.body.topics:
            partitions = []
            for wanted in topic.partitions:
                read = self._read(topic.topic, wanted, budget, is_first)
                partitions.append(read)
                if read.records:
                    # Only the answer's first batch may be larger than asked for (KIP-74).
                    is_first = False
                    budget -= len(read.records)
            topics.append(_Topic(topic=topic.topic, partitions=partitions))
        self._call.reply(FetchResponse(error_code=ErrorCode.NONE, session_id=0, responses=topics))

    def _wanted(self) -> Iterator[tuple[str, Any]]:
        for topic in self._call.body.topics:
            for wanted in topic.partitions:
                yield topic.topic, wanted

    def _log(self, topic: str, wanted: Any) -> PartitionLog:
        partition = self._call.cluster.led_partition(self._call.node_id, topic, wanted.partition)
        check_leader_epoch(partition.log, wanted.current_leader_epoch)
        return partition.log

    def _read(self, topic: str, wanted: Any, budget: int, is_first: bool) -> Any:
        try:
            log = self._log(topic, wanted)
            diverging = _diverging(log, wanted)
            size = max(min(wanted.partition_max_bytes, budget), 0)
            records = b"" if diverging else log.read(wanted.fetch_offset, size, at_least_one=is_first)
        except Refused as refused:
            return _error(wanted.partition, refused.code)
        return _Partition(
            partition_index=wanted.partition,
            error_code=ErrorCode.NONE,
            high_watermark=log.high_watermark,
            last_stable_offset=log.high_watermark,
            log_start_offset=log.start_offset,
            diverging_epoch=diverging,
            aborted_transactions=[],
            records=records,
        )


def _diverging(log: PartitionLog, wanted: Any) -> Any:
    """Where the reader's log and this one parted, if its last fetched epoch tells that they did (KIP-595)."""
    if wanted.last_fetched_epoch < 0:
        return None
    end = log.epoch_end(wanted.last_fetched_epoch)
    if end.end_offset >= wanted.fetch_offset and end.epoch >= wanted.last_fetched_epoch:
        return None
    return _Partition.EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)


def _error(partition: int, code: ErrorCode) -> Any:
    return _Partition(
        partition_index=partition, error_code=code, high_watermark=-1, aborted_transactions=[], records=b""
    )
