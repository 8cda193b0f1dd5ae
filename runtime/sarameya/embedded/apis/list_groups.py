"""ListGroups: the groups of this broker, filtered by state (KIP-518) or type (KIP-848)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import ListGroupsResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.error_codes import ErrorCode

_Group = ListGroupsResponse.ListedGroup

_TYPE = "classic"
"""The type of every group here: the protocol with joins and syncs, not the one of KIP-848."""


def answer(call: Call) -> None:
    if call.cluster.is_loading_groups(call.node_id):
        call.reply(refuse(call.body, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    # Unknown names match no group.
    types, names = _names(call.body.types_filter), _names(call.body.states_filter)
    states = [state for state in GroupState if state.value.lower() in names]
    may_match = (not types or _TYPE in types) and (not names or states)
    listed = call.groups.list_groups(states) if may_match else []
    call.reply(
        ListGroupsResponse(
            error_code=ErrorCode.NONE,
            groups=[
                _Group(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state.value,
                    group_type=_TYPE,
                )
                for group in listed
            ],
        )
    )


def _names(wanted: Any) -> set[str]:
    return {name.lower().strip() for name in wanted or ()}


def refuse(body: Any, code: ErrorCode) -> Any:
    return ListGroupsResponse(error_code=code, groups=[])
