"""ListGroups: the groups this broker coordinates."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import ListGroupsResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.groups.states import GroupState
from sarameya.error_codes import ErrorCode

_Group = ListGroupsResponse.ListedGroup


def answer(call: Call) -> None:
    # A state nobody has ever heard of matches no group (KIP-518).
    filters = [name.lower() for name in call.body.states_filter or ()]
    states = [state for state in GroupState if state.value.lower() in filters]
    listed = call.groups.list_groups(states) if states or not filters else []
    call.reply(
        ListGroupsResponse(
            error_code=ErrorCode.NONE,
            groups=[
                _Group(group_id=group.group_id, protocol_type=group.protocol_type, group_state=group.state.value)
                for group in listed
            ],
        )
    )


def refuse(body: Any, code: ErrorCode) -> Any:
    return ListGroupsResponse(error_code=code, groups=[])
