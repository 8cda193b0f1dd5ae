"""OffsetDelete: an administrator takes a group's commits away (KIP-496)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetDeleteResponse

from sarameya.embedded.apis.call import Call
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition

_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = _Topic.OffsetDeleteResponsePartition


def answer(call: Call) -> None:
    wanted = [TopicPartition(topic.name, p.partition_index) for topic in call.body.topics for p in topic.partitions]
    deleted = call.groups.delete_offsets(call.body.group_id, wanted)
    call.reply(
        OffsetDeleteResponse(
            error_code=deleted.error,
            topics=[
                _Topic(
                    name=topic.name,
                    partitions=[
                        _Partition(
                            partition_index=p.partition_index,
                            error_code=deleted.errors.get(TopicPartition(topic.name, p.partition_index), deleted.error),
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in call.body.topics
            ],
        )
    )


def refuse(body: Any, code: ErrorCode) -> Any:
    return OffsetDeleteResponse(error_code=code, topics=[])
