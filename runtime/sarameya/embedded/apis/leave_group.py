"""LeaveGroup: one member before version 3, any number from then on (KIP-345)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import LeaveGroupResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.groups.model.messages import LeaveRequest, LeavingMember
from sarameya.error_codes import ErrorCode

_Member = LeaveGroupResponse.MemberResponse


def answer(call: Call) -> None:
    body, names_many = call.body, call.version >= 3
    if names_many:
        members = tuple(LeavingMember(m.member_id, m.group_instance_id, m.reason or "") for m in body.members)
    else:
        members = (LeavingMember(body.member_id),)
    left = call.groups.leave(LeaveRequest(body.group_id, members), call.now)
    call.reply(
        LeaveGroupResponse(
            error_code=left.error if names_many else left.single_error,
            members=[
                _Member(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error)
                for member, error in left.members
            ],
        )
    )


def refuse(body: Any, code: ErrorCode) -> Any:
    return LeaveGroupResponse(error_code=code, members=[])
