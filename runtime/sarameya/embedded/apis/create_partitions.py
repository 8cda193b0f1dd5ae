"""CreatePartitions: more partitions for a topic (KIP-195)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import CreatePartitionsResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode

_Result = CreatePartitionsResponse.CreatePartitionsTopicResult


def answer(call: Call) -> None:
    call.reply(CreatePartitionsResponse(results=[_grow(call, topic) for topic in call.body.topics]))


def refuse(body: Any, code: ErrorCode) -> Any:
    return CreatePartitionsResponse(
        results=[_Result(name=topic.name, error_code=code, error_message=code.name) for topic in body.topics]
    )


def _grow(call: Call, wanted: Any) -> Any:
    try:
        call.cluster.topics.check_growth(wanted.name, wanted.count)
    except Refused as refused:
        return _Result(name=wanted.name, error_code=refused.code, error_message=refused.why)
    if not call.body.validate_only:
        call.cluster.grow_topic(wanted.name, wanted.count)
    return _Result(name=wanted.name, error_code=ErrorCode.NONE, error_message=None)
