"""OffsetCommit: stores a group's offsets. Partitions that do not exist are refused one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import OffsetCommitResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.apis.offset_rows import answered, missing, rows
from sarameya.embedded.groups.model.messages import CommitRequest
from sarameya.error_codes import ErrorCode
from sarameya.model import CommittedOffset, TopicPartition

_Topic = OffsetCommitResponse.OffsetCommitResponseTopic
_Partition = _Topic.OffsetCommitResponsePartition

_AS_CONFIGURED = -1


def answer(call: Call) -> None:
    body = call.body
    requested = rows(body)
    codes = missing(call, requested)
    offsets = {
        partition: CommittedOffset(p.committed_offset, p.committed_metadata or "", p.committed_leader_epoch)
        for partition, p in requested.items()
        if partition not in codes
    }
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
        codes |= call.groups.commit(request, call.now).errors
    call.reply(_response(body, codes))


def _retention(call: Call) -> float | None:
    """Return the seconds of retention that versions 2 to 4 may request; None: the broker's setting."""
    milliseconds = call.body.retention_time_ms if call.version <= 4 else _AS_CONFIGURED
    return None if milliseconds == _AS_CONFIGURED else float(milliseconds) / 1000


def refuse(body: Any, code: ErrorCode) -> Any:
    return _response(body, dict.fromkeys(rows(body), code))


def _response(body: Any, codes: Mapping[TopicPartition, ErrorCode]) -> Any:
    return OffsetCommitResponse(topics=answered(body, codes, _Topic, _Partition))
