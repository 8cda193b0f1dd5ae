"""DescribeGroups: the state and members of groups. A group that does not exist is Dead; from v6 it is an error."""

from __future__ import annotations

from typing import Any

import attrs
from kafka.protocol.admin import DescribeGroupsResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import GroupDescription
from sarameya.error_codes import ErrorCode

_Group = DescribeGroupsResponse.DescribedGroup
_Member = _Group.DescribedGroupMember

_HAS_NOT_FOUND = 6
"""First version in which a group that does not exist is an error (KIP-1043)."""

_AUTHORIZED = frozenset({3, 6, 8, 10, 11})
"""Read, delete, describe, describe configs, alter configs: every operation on groups, since all are allowed."""


def answer(call: Call) -> None:
    groups = [call.groups.describe(group_id) for group_id in call.body.groups]
    if call.version >= _HAS_NOT_FOUND:
        groups = [_not_found(described) if described.state is GroupState.DEAD else described for described in groups]
    operations = _AUTHORIZED if call.body.include_authorized_operations else None
    call.reply(DescribeGroupsResponse(groups=[_group(described, operations) for described in groups]))


def refuse(body: Any, code: ErrorCode) -> Any:
    return DescribeGroupsResponse(groups=[_group(GroupDescription(code, group_id)) for group_id in body.groups])


def _not_found(described: GroupDescription) -> GroupDescription:
    return attrs.evolve(described, error=ErrorCode.GROUP_ID_NOT_FOUND)


def _group(described: GroupDescription, operations: frozenset[int] | None = None) -> Any:
    return _Group(
        error_code=described.error,
        error_message=None if described.error is ErrorCode.NONE else _error_message(described),
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
        authorized_operations=operations if described.error is ErrorCode.NONE else None,
    )


def _error_message(described: GroupDescription) -> str:
    if described.error is ErrorCode.GROUP_ID_NOT_FOUND:
        return f"Group {described.group_id} not found."
    return described.error.name
