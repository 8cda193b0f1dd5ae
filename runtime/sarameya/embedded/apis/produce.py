"""Produce: appends record batches to logs (KIP-98), after the checks that Kafka makes.

This module checks the request, the batch and its records. `log.partition_log` checks whether the batch may follow the
previous batches of its log. Requests with `acks` 1 or -1 are answered as soon as the batch is appended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.protocol.producer import ProduceResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.apis.leaders import endpoints
from sarameya.embedded.refusal import Refused
from sarameya.embedded.topics import EmbeddedPartition
from sarameya.error_codes import ErrorCode
from sarameya.errors import ProtocolError, RecordError
from sarameya.model import TopicPartition
from sarameya.protocol.cluster.offsets_partition import OFFSETS_TOPIC
from sarameya.protocol.records.batch_codec import RawBatch, crc_matches, decode_columns, split
from sarameya.protocol.records.batch_headers import CODEC_MASK
from sarameya.protocol.records.compression import Codec

_Topic = ProduceResponse.TopicProduceResponse
_Partition = _Topic.PartitionProduceResponse
_RecordError = _Partition.BatchIndexAndErrorMessage

_FIRST_WITH_ZSTD = 7
"""First version that may carry batches compressed with zstd (KIP-110)."""
_RETURNS_LEADERS = 10
"""First version whose responses name the new leader (KIP-951)."""
_BY_TOPIC_ID = 13
"""First version that names topics by id (KIP-516)."""

_UNKNOWN = -1
_NO_PARTITION = TopicPartition("", 0)

_MAX_AHEAD = 3600 * 1000
"""Milliseconds, Kafka's `message.timestamp.after.max.ms`: with a later timestamp, the producer's clock is wrong."""

_WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
    }
)
"""Error codes returned without the log start offset, as in Kafka."""


class _InvalidRecords(Refused):
    """Some records of a batch are invalid. The whole batch is refused; `indexes` are those of the records (KIP-467)."""

    def __init__(self, code: ErrorCode, why: str, indexes: Sequence[int]) -> None:
        super().__init__(code, why)
        self.indexes = indexes


def answer(call: Call) -> None:
    if _lacks_transaction(call.body):
        produced = refuse(call.body, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    else:
        produced = ProduceResponse(
            responses=[
                _Topic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[_produce(call, topic, data) for data in topic.partition_data],
                )
                for topic in call.body.topic_data
            ]
        )
    failed = [p for topic in produced.responses for p in topic.partition_responses if p.error_code != ErrorCode.NONE]
    if call.body.acks == 0 and failed:
        call.cluster.complete_fetches(call.now)
        # With acks=0 no response can report the error. The connection closes instead: a client that reconnects
        # refreshes its metadata.
        code = ErrorCode(failed[0].error_code)
        raise ProtocolError(f"acks=0, but the records are refused ({code.name})")
    if call.version >= _RETURNS_LEADERS:
        leaders = {p.current_leader.leader_id for p in failed if p.current_leader is not None}
        produced.node_endpoints = endpoints(call.cluster, leaders, ProduceResponse.NodeEndpoint)
    call.reply(produced)


def refuse(body: Any, code: ErrorCode) -> Any:
    return ProduceResponse(
        responses=[
            _Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _Partition(index=data.index, error_code=code, base_offset=-1, record_errors=[])
                    for data in topic.partition_data
                ],
            )
            for topic in body.topic_data
        ]
    )


def _lacks_transaction(body: Any) -> bool:
    """Return True if a batch is transactional but the request has no transactional id, which is not allowed."""
    if body.transactional_id is not None:
        return False
    return any(_is_transactional(data.records) for topic in body.topic_data for data in topic.partition_data)


def _is_transactional(records: bytes | None) -> bool:
    try:
        first = next(split(records or b"", _NO_PARTITION, 0), None)
    except RecordError:
        return False
    return first is not None and first.is_transactional


def _produce(call: Call, topic: Any, data: Any) -> Any:
    log_start = _UNKNOWN
    try:
        partition = _partition(call, topic, data.index)
        name = partition.topic_partition
        raw = _only_batch(data.records or b"", name, call.version)
        if call.body.acks not in (-1, 0, 1):
            raise Refused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={call.body.acks}: must be 0, 1 or -1")
        if name.topic == OFFSETS_TOPIC:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name.topic} is an internal topic")
        call.cluster.led_partition(call.node_id, *name)
        if raw.is_transactional:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{name}: transactions are not served")
        log_start = partition.log.start_offset
        _check_records(raw, name, call.cluster.wall_clock())
        appended = call.cluster.append(partition, raw.data)
    except Refused as refused:
        return _refused(call, topic, data.index, refused, log_start)
    return _Partition(
        index=data.index,
        error_code=ErrorCode.NONE,
        base_offset=appended.base_offset,
        log_start_offset=log_start,
        record_errors=[],
    )


def _refused(call: Call, topic: Any, index: int, refused: Refused, log_start: int) -> Any:
    leader = None
    if refused.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and call.version >= _RETURNS_LEADERS:
        partition = _partition(call, topic, index)
        leader = _Partition.LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.log.leader_epoch)
    indexes = refused.indexes if isinstance(refused, _InvalidRecords) else ()
    return _Partition(
        index=index,
        error_code=refused.code,
        base_offset=-1,
        log_start_offset=_UNKNOWN if refused.code in _WITHOUT_LOG_START else log_start,
        record_errors=[_RecordError(batch_index=place, batch_index_error_message=refused.why) for place in indexes],
        error_message=refused.why,
        current_leader=leader,
    )


def _partition(call: Call, topic: Any, number: int) -> EmbeddedPartition:
    topics = call.cluster.topics
    if call.version < _BY_TOPIC_ID:
        return topics.partition(topic.name, number)
    found = topics.by_id(topic.topic_id)
    if found is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has id {topic.topic_id}")
    return topics.partition(found.name, number)


def _only_batch(records: bytes, partition: TopicPartition, version: int) -> RawBatch:
    """Return the single batch of a request, after the checks that need no log. Incomplete bytes after it are ignored.

    Raises:
        Refused: CORRUPT_MESSAGE, INVALID_RECORD or UNSUPPORTED_COMPRESSION_TYPE.
    """
    try:
        raws = list(split(records, partition, 0))
    except RecordError as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if len(raws) != 1:
        raise Refused(ErrorCode.INVALID_RECORD, f"{partition}: expected one whole batch, got {len(raws)}")
    [raw] = raws
    if raw.magic != 2:
        raise Refused(ErrorCode.INVALID_RECORD, f"{partition}: record format v{raw.magic} is not supported, only v2")
    if raw.attributes & CODEC_MASK == Codec.ZSTD and version < _FIRST_WITH_ZSTD:
        raise Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"{partition}: zstd needs Produce version {_FIRST_WITH_ZSTD} or later",
        )
    return raw


def _check_records(raw: RawBatch, partition: TopicPartition, wall_time: float) -> None:
    """Check that the records can be decoded, and that no timestamp is too far ahead.

    A batch with an invalid header is not checked here: the log refuses it.

    Raises:
        Refused: CORRUPT_MESSAGE or INVALID_TIMESTAMP.
    """
    if not crc_matches(raw) or raw.record_count != raw.last_offset - raw.base_offset + 1:
        return
    try:
        timestamps = decode_columns(raw, partition, check_crc=False).timestamps
    except RecordError as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    latest = int(wall_time * 1000) + _MAX_AHEAD
    if max(timestamps) > latest:
        raise _InvalidRecords(
            ErrorCode.INVALID_TIMESTAMP,
            f"{partition}: a timestamp is after {latest} ms, an hour from now; check the producer's clock",
            [index for index, timestamp in enumerate(timestamps) if timestamp > latest],
        )
