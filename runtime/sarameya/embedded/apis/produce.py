"""Produce: batches into logs (KIP-98). There are no other replicas, so every `acks` but 0 is answered alike."""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer import ProduceResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.protocol.offsets_partition import OFFSETS_TOPIC

_Topic = ProduceResponse.TopicProduceResponse
_Partition = _Topic.PartitionProduceResponse


def answer(call: Call) -> None:
    if call.body.acks not in (-1, 0, 1):
        call.reply(refuse(call.body, ErrorCode.INVALID_REQUIRED_ACKS))
        return
    call.reply(
        ProduceResponse(
            responses=[
                _Topic(
                    name=topic.name,
                    partition_responses=[_append(call, topic.name, data) for data in topic.partition_data],
                )
                for topic in call.body.topic_data
            ]
        )
    )


def refuse(body: Any, code: ErrorCode) -> Any:
    return ProduceResponse(
        responses=[
            _Topic(
                name=topic.name,
                partition_responses=[
                    _Partition(index=data.index, error_code=code, base_offset=-1, record_errors=[])
                    for data in topic.partition_data
                ],
            )
            for topic in body.topic_data
        ]
    )


def _append(call: Call, topic: str, data: Any) -> Any:
    try:
        partition = call.cluster.led_partition(call.node_id, topic, data.index)
        if topic == OFFSETS_TOPIC:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is the brokers' own topic")
        appended = call.cluster.append(partition, data.records or b"")
    except Refused as refused:
        return _Partition(
            index=data.index, error_code=refused.code, base_offset=-1, record_errors=[], error_message=refused.why
        )
    return _Partition(
        index=data.index,
        error_code=ErrorCode.NONE,
        base_offset=appended.base_offset,
        log_start_offset=partition.log.start_offset,
        record_errors=[],
    )
