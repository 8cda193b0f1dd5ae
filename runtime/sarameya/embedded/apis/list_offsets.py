"""ListOffsets: a partition's first and last offset, or the offset of a time (KIP-79, KIP-734)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import ListOffsetsResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.partition_log import PartitionLog, Timestamped
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.errors import RecordError
from sarameya.model import NO_TIMESTAMP

_Topic = ListOffsetsResponse.ListOffsetsTopicResponse
_Partition = _Topic.ListOffsetsPartitionResponse

_LATEST, _EARLIEST, _MAX_TIMESTAMP = -1, -2, -3


def answer(call: Call) -> None:
    call.reply(
        ListOffsetsResponse(
            topics=[
                _Topic(name=topic.name, partitions=[_offset(call, topic.name, p) for p in topic.partitions])
                for topic in call.body.topics
            ]
        )
    )


def refuse(body: Any, code: ErrorCode) -> Any:
    return ListOffsetsResponse(
        topics=[
            _Topic(
                name=topic.name,
                partitions=[_Partition(partition_index=p.partition_index, error_code=code) for p in topic.partitions],
            )
            for topic in body.topics
        ]
    )


def _offset(call: Call, topic: str, asked: Any) -> Any:
    try:
        log = call.cluster.led_partition(call.node_id, topic, asked.partition_index, asked.current_leader_epoch).log
        found = _find(log, asked.timestamp)
    except Refused as refused:
        return _Partition(partition_index=asked.partition_index, error_code=refused.code)
    except RecordError:  # a test put broken bytes into the log
        return _Partition(partition_index=asked.partition_index, error_code=ErrorCode.CORRUPT_MESSAGE)
    if found is None:
        return _Partition(partition_index=asked.partition_index, error_code=ErrorCode.NONE)
    return _Partition(
        partition_index=asked.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _find(log: PartitionLog, timestamp: int) -> Timestamped | None:
    if timestamp == _LATEST:
        return Timestamped(log.high_watermark, NO_TIMESTAMP, log.leader_epoch)
    if timestamp == _EARLIEST:
        return Timestamped(log.start_offset, NO_TIMESTAMP, log.epoch_of(log.start_offset))
    if timestamp == _MAX_TIMESTAMP:
        return log.latest_by_time()
    return log.offset_for_time(timestamp)
