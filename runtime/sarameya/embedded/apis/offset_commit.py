"""OffsetCommit: how far a group has come. Partitions that do not exist are refused one by one."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetCommitResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.groups.messages import CommitRequest
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.model import CommittedOffset, TopicPartition

_Topic = OffsetCommitResponse.OffsetCommitResponseTopic
_Partition = _Topic.OffsetCommitResponsePartition

_AS_CONFIGURED = -1


def answer(call: Call) -> None:
    body = call.body
    offsets: dict[TopicPartition, CommittedOffset] = {}
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in body.topics:
        for p in topic.partitions:
            partition = TopicPartition(topic.name, p.partition_index)
            try:
                call.cluster.topics.partition(*partition)
            except Refused as refused:
                errors[partition] = refused.code
            else:
                offsets[partition] = CommittedOffset(
                    p.committed_offset, p.committed_metadata or "", p.committed_leader_epoch
                )
    if offsets:
        request = CommitRequest(
            group_id=body.group_id,
            offsets=offsets,
            generation=body.generation_id_or_member_epoch,
            member_id=body.member_id,
            group_instance_id=body.group_instance_id,
            knows_group_id_not_found=call.version >= 9,
            retention=_retention(call),
        )
        errors |= call.groups.commit(request, call.now).errors
    call.reply(_response(body, errors))


def _retention(call: Call) -> float | None:
    """Versions 2 to 4 may say how long to keep what they commit; -1: as long as anything."""
    milliseconds = call.body.retention_time_ms if call.version <= 4 else _AS_CONFIGURED
    return None if milliseconds == _AS_CONFIGURED else float(milliseconds) / 1000


def refuse(body: Any, code: ErrorCode) -> Any:
    return _response(body, {}, code)


def _response(body: Any, errors: dict[TopicPartition, ErrorCode], default: ErrorCode = ErrorCode.NONE) -> Any:
    return OffsetCommitResponse(
        topics=[
            _Topic(
                name=topic.name,
                partitions=[
                    _Partition(
                        partition_index=p.partition_index,
                        error_code=errors.get(TopicPartition(topic.name, p.partition_index), default),
                    )
                    for p in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )
