"""DescribeGroups: a group's state and its members."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeGroupsResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.groups.messages import GroupDescription
from sarameya.error_codes import ErrorCode

_Group = DescribeGroupsResponse.DescribedGroup
_Member = _Group.DescribedGroupMember


def answer(call: Call) -> None:
    groups = [_group(call.groups.describe(group_id)) for group_id in call.body.groups]
    call.reply(DescribeGroupsResponse(groups=groups))


def refuse(body: Any, code: ErrorCode) -> Any:
    return DescribeGroupsResponse(groups=[_group(GroupDescription(code, group_id)) for group_id in body.groups])


def _group(described: GroupDescription) -> Any:
    return _Group(
        error_code=described.error,
        group_id=described.group_id,
        group_state=described.state.value if described.state else "",
        protocol_type=described.protocol_type,
        protocol_data=described.protocol_name,
        members=[
            _Member(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in described.members
        ],
    )
