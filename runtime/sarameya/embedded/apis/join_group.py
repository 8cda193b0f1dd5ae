"""JoinGroup on the wire. The coordinator holds the response until all members have joined."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import JoinGroupResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.groups.model.messages import JoinGroupResult, JoinRequest, SupportedProtocol
from sarameya.error_codes import ErrorCode

_Member = JoinGroupResponse.JoinGroupResponseMember


def answer(call: Call) -> None:
    body, version = call.body, call.version
    request = JoinRequest(
        group_id=body.group_id,
        protocol_type=body.protocol_type,
        protocols=tuple(SupportedProtocol(p.name, p.metadata) for p in body.protocols),
        session_timeout=body.session_timeout_ms / 1000,
        rebalance_timeout=(body.rebalance_timeout_ms if version >= 1 else body.session_timeout_ms) / 1000,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        client_id=call.request.client_id,
        client_host=call.client_host,
        requires_known_member_id=version >= 4,
        can_skip_assignment=version >= 9,
        reason=body.reason or "",
    )

    def reply(joined: JoinGroupResult) -> None:
        call.reply(_response(joined, version))

    call.groups.join(request, call.now, reply)


def refuse(body: Any, code: ErrorCode) -> Any:
    return JoinGroupResponse(
        error_code=code, generation_id=-1, protocol_name="", leader="", member_id=body.member_id, members=[]
    )


def _response(joined: JoinGroupResult, version: int) -> Any:
    # Without a chosen protocol the name is null from version 7 on, and the empty string before.
    no_protocol = None if version >= 7 else ""
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name or no_protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            _Member(member_id=m.member_id, group_instance_id=m.group_instance_id, metadata=m.metadata)
            for m in joined.members
        ],
    )
