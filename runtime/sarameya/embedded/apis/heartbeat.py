"""Heartbeat: keeps a member alive, and reports a rebalance to it."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import HeartbeatResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.groups.model.messages import HeartbeatRequest
from sarameya.error_codes import ErrorCode


def answer(call: Call) -> None:
    body = call.body
    request = HeartbeatRequest(body.group_id, body.generation_id, body.member_id, body.group_instance_id)
    call.reply(HeartbeatResponse(error_code=call.groups.heartbeat(request, call.now)))


def refuse(body: Any, code: ErrorCode) -> Any:
    return HeartbeatResponse(error_code=code)
