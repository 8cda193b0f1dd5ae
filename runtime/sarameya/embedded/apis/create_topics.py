"""CreateTopics. A topic's configuration is accepted but has no effect: no expiry, no compaction."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafka.protocol.admin import CreateTopicsResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode

_Result = CreateTopicsResponse.CreatableTopicResult

_DEFAULT = -1


def answer(call: Call) -> None:
    counts = Counter(topic.name for topic in call.body.topics)
    call.reply(CreateTopicsResponse(topics=[_create(call, topic, counts[topic.name]) for topic in call.body.topics]))


def refuse(body: Any, code: ErrorCode) -> Any:
    return CreateTopicsResponse(topics=[_refused(topic.name, code, code.name) for topic in body.topics])


def _create(call: Call, wanted: Any, count: int) -> Any:
    cluster = call.cluster
    # A request may list the replicas of each partition. Only their number is used; the placement is ignored.
    partitions = len(wanted.assignments) or wanted.num_partitions
    if partitions == _DEFAULT:
        partitions = cluster.settings.default_partitions
    uses_default = wanted.replication_factor == _DEFAULT or wanted.assignments
    replicas = cluster.default_replication_factor if uses_default else wanted.replication_factor
    try:
        if count > 1:
            raise Refused(ErrorCode.INVALID_REQUEST, f"the request names topic {wanted.name!r} {count} times")
        cluster.check_replication(replicas)
        cluster.topics.check(wanted.name, partitions)
    except Refused as refused:
        return _refused(wanted.name, refused.code, refused.why)
    topic = None if call.body.validate_only else cluster.create_topic(wanted.name, partitions, replicas)
    return _Result(
        name=wanted.name,
        topic_id=topic.id if topic else None,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[],
    )


def _refused(name: str, code: ErrorCode, why: str) -> Any:
    return _Result(name=name, error_code=code, error_message=why, configs=None)
