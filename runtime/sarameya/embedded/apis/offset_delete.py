"""OffsetDelete: an administrator takes a group's commits away (KIP-496). Partitions that do not exist are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import OffsetDeleteResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition

_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = _Topic.OffsetDeleteResponsePartition


def answer(call: Call) -> None:
    body = call.body
    errors: dict[TopicPartition, ErrorCode] = {}
    wanted: list[TopicPartition] = []
    for topic in body.topics:
        for p in topic.partitions:
            partition = TopicPartition(topic.name, p.partition_index)
            try:
                call.cluster.topics.partition(*partition)
            except Refused as refused:
                errors[partition] = refused.code
            else:
                wanted.append(partition)
    deleted = call.groups.delete_offsets(body.group_id, wanted)
    if deleted.error is ErrorCode.NONE:
        call.reply(_response(body, {**errors, **deleted.errors}))
    else:
        call.reply(refuse(body, deleted.error))


def refuse(body: Any, code: ErrorCode) -> Any:
    return OffsetDeleteResponse(error_code=code, topics=[])


def _response(body: Any, errors: Mapping[TopicPartition, ErrorCode]) -> Any:
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            _Topic(
                name=topic.name,
                partitions=[
                    _Partition(
                        partition_index=p.partition_index,
                        error_code=errors[TopicPartition(topic.name, p.partition_index)],
                    )
                    for p in topic.partitions
                ],
            )
            for topic in body.topics
        ],
    )
