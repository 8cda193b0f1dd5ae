"""DeleteTopics, by name or, from version 6 on, by id (KIP-516)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DeleteTopicsResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode

_Result = DeleteTopicsResponse.DeletableTopicResult


def answer(call: Call) -> None:
    if call.version < 6:
        results = [_delete(call, name, None) for name in call.body.topic_names]
    else:
        results = [_delete(call, topic.name, topic.topic_id) for topic in call.body.topics]
    call.reply(DeleteTopicsResponse(responses=results))


def refuse(body: Any, code: ErrorCode) -> Any:
    wanted = [(name, None) for name in body.topic_names or ()]
    wanted += [(topic.name, topic.topic_id) for topic in body.topics or ()]
    return DeleteTopicsResponse(
        responses=[
            _Result(name=name, topic_id=topic_id, error_code=code, error_message=code.name) for name, topic_id in wanted
        ]
    )


def _delete(call: Call, name: str | None, topic_id: Any) -> Any:
    try:
        if name is None:
            topic = call.cluster.topics.by_id(topic_id)
            if topic is None:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has id {topic_id}")
        else:
            topic = call.cluster.topics.topic(name)
        call.cluster.delete_topic(topic.name, call.now)
    except Refused as refused:
        return _Result(name=name, topic_id=topic_id, error_code=refused.code, error_message=refused.why)
    return _Result(name=topic.name, topic_id=topic.id, error_code=ErrorCode.NONE, error_message=None)
