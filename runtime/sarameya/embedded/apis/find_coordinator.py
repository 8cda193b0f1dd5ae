"""FindCoordinator: the broker that coordinates a group; from version 4, of many groups at once (KIP-699)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.metadata import FindCoordinatorResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode

_Coordinator = FindCoordinatorResponse.Coordinator

_GROUP = 0


def answer(call: Call) -> None:
    if call.version >= 4:
        found = [_find(call, key) for key in call.body.coordinator_keys]
        call.reply(FindCoordinatorResponse(coordinators=found))
        return
    one = _find(call, call.body.key)
    call.reply(
        FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message or ErrorCode.NONE.name,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def refuse(body: Any, code: ErrorCode) -> Any:
    return FindCoordinatorResponse(
        error_code=code,
        error_message=None,
        node_id=-1,
        host="",
        port=-1,
        coordinators=[_no_coordinator(key, code, code.name) for key in body.coordinator_keys or ()],
    )


def _find(call: Call, key: str) -> Any:
    if call.body.key_type != _GROUP:
        why = "only groups have a coordinator here; transactions are not served"
        return _no_coordinator(key, ErrorCode.INVALID_REQUEST, why)
    try:
        node = call.cluster.coordinator_node(key)
    except Refused as refused:
        return _no_coordinator(key, refused.code, refused.why)
    return _Coordinator(
        key=key, node_id=node.id, host=node.host, port=node.port, error_code=ErrorCode.NONE, error_message=""
    )


def _no_coordinator(key: str, code: ErrorCode, why: str) -> Any:
    return _Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=why)
