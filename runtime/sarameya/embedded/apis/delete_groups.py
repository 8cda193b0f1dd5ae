"""DeleteGroups: deletes groups without members, and their commits (KIP-229)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DeleteGroupsResponse

from sarameya.embedded.apis.call import Call
from sarameya.error_codes import ErrorCode

_Result = DeleteGroupsResponse.DeletableGroupResult


def answer(call: Call) -> None:
    call.reply(
        DeleteGroupsResponse(
            results=[
                _Result(group_id=group_id, error_code=call.groups.delete_group(group_id, call.now))
                for group_id in call.body.groups_names
            ]
        )
    )


def refuse(body: Any, code: ErrorCode) -> Any:
    return DeleteGroupsResponse(results=[_Result(group_id=group_id, error_code=code) for group_id in body.groups_names])
