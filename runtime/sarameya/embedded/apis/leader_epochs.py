"""OffsetForLeaderEpoch, and the epoch that readers send along to be told of an election they missed (KIP-320)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.partition_log import PartitionLog
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.model import NO_LEADER_EPOCH

_Topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_Partition = _Topic.EpochEndOffset


def check_leader_epoch(log: PartitionLog, epoch: int) -> None:
    """Raises Refused: FENCED_LEADER_EPOCH for a reader behind, UNKNOWN_LEADER_EPOCH for one ahead of this broker."""
    if epoch == NO_LEADER_EPOCH or epoch == log.leader_epoch:
        return
    behind = epoch < log.leader_epoch
    raise Refused(
        ErrorCode.FENCED_LEADER_EPOCH if behind else ErrorCode.UNKNOWN_LEADER_EPOCH,
        f"{log.partition} is in leader epoch {log.leader_epoch}, not {epoch}",
    )


def answer(call: Call) -> None:
    call.reply(
        OffsetForLeaderEpochResponse(
            topics=[
                _Topic(topic=topic.topic, partitions=[_end(call, topic.topic, p) for p in topic.partitions])
                for topic in call.body.topics
            ]
        )
    )


def refuse(body: Any, code: ErrorCode) -> Any:
    return OffsetForLeaderEpochResponse(
        topics=[
            _Topic(
                topic=topic.topic,
                partitions=[_Partition(error_code=code, partition=p.partition) for p in topic.partitions],
            )
            for topic in body.topics
        ]
    )


def _end(call: Call, topic: str, asked: Any) -> Any:
    try:
        log = call.cluster.led_partition(call.node_id, topic, asked.partition).log
        check_leader_epoch(log, asked.current_leader_epoch)
    except Refused as refused:
        return _Partition(error_code=refused.code, partition=asked.partition)
    epoch, end_offset = log.epoch_end(asked.leader_epoch)
    return _Partition(error_code=ErrorCode.NONE, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
