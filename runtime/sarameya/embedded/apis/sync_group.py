"""SyncGroup: held until the leader has sent the assignment."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import SyncGroupResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.groups.model.messages import SyncGroupResult, SyncRequest
from sarameya.error_codes import ErrorCode

_NAMES_PROTOCOL = 5
"""First version in which a sync must contain the protocol of the join's response (KIP-559)."""


def answer(call: Call) -> None:
    body = call.body
    if call.version >= _NAMES_PROTOCOL and None in (body.protocol_type, body.protocol_name):
        call.reply(refuse(body, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    request = SyncRequest(
        group_id=body.group_id,
        generation=body.generation_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        protocol_name=body.protocol_name,
        assignments={entry.member_id: entry.assignment for entry in body.assignments},
    )

    def reply(synced: SyncGroupResult) -> None:
        call.reply(
            SyncGroupResponse(
                error_code=synced.error,
                protocol_type=synced.protocol_type,
                protocol_name=synced.protocol_name,
                assignment=synced.assignment,
            )
        )

    call.groups.sync(request, call.now, reply)


def refuse(body: Any, code: ErrorCode) -> Any:
    return SyncGroupResponse(error_code=code, assignment=b"")
