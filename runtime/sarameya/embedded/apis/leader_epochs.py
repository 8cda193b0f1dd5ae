"""OffsetForLeaderEpoch: the end offset of a leader epoch, with which consumers detect truncation (KIP-320)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode

_Topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_Partition = _Topic.EpochEndOffset


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


def _end(call: Call, topic: str, requested: Any) -> Any:
    try:
        log = call.cluster.led_partition(call.node_id, topic, requested.partition, requested.current_leader_epoch).log
    except Refused as refused:
        return _Partition(error_code=refused.code, partition=requested.partition)
    epoch, end_offset = log.epoch_end(requested.leader_epoch)
    return _Partition(
        error_code=ErrorCode.NONE, partition=requested.partition, leader_epoch=epoch, end_offset=end_offset
    )
