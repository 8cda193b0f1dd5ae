"""OffsetDelete: deletes commits of a group (KIP-496). Partitions that do not exist are refused one by one."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetDeleteResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.apis.offset_rows import answered, missing, rows
from sarameya.error_codes import ErrorCode

_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = _Topic.OffsetDeleteResponsePartition


def answer(call: Call) -> None:
    body = call.body
    requested = rows(body)
    codes = missing(call, requested)
    existing = [partition for partition in requested if partition not in codes]
    deleted = call.groups.delete_offsets(body.group_id, existing)
    if deleted.error is ErrorCode.NONE:
        topics = answered(body, {**codes, **deleted.errors}, _Topic, _Partition)
        call.reply(OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics))
    else:
        call.reply(refuse(body, deleted.error))


def refuse(body: Any, code: ErrorCode) -> Any:
    return OffsetDeleteResponse(error_code=code, topics=[])
