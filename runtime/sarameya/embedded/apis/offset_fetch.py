"""OffsetFetch: the commits of a group; from version 8 on, of several groups at once (KIP-709).

No commit is ever pending here, since there are no transactions. `require_stable` therefore has no effect.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetFetchResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.groups.model.messages import OffsetFetchResult
from sarameya.embedded.groups.offset_rules import NO_COMMIT
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition, by_topic

_Topic = OffsetFetchResponse.OffsetFetchResponseTopic
_Partition = _Topic.OffsetFetchResponsePartition
_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_GroupTopic = _Group.OffsetFetchResponseTopics
_GroupPartition = _GroupTopic.OffsetFetchResponsePartitions

_HAS_GROUP_ERROR = 2
"""First version in which an error of the group is returned once, not for each partition."""


def answer(call: Call) -> None:
    body = call.body
    if call.version >= 8:
        call.reply(OffsetFetchResponse(groups=[_group(call, wanted) for wanted in body.groups]))
        return
    fetched = _fetch(call, body.group_id, body.topics)
    if call.version >= _HAS_GROUP_ERROR and fetched.error is not ErrorCode.NONE:
        call.reply(OffsetFetchResponse(error_code=fetched.error, topics=[]))
    else:
        topics = _topics(fetched, body.topics, _Topic, _Partition)
        call.reply(OffsetFetchResponse(error_code=fetched.error, topics=topics))


def refuse(body: Any, code: ErrorCode) -> Any:
    return OffsetFetchResponse(
        error_code=code,
        # The version is not known here. Versions without an error code for the group need it in each partition.
        topics=_topics(OffsetFetchResult(code), body.topics, _Topic, _Partition),
        groups=[_Group(group_id=wanted.group_id, error_code=code, topics=[]) for wanted in body.groups or ()],
    )


def _group(call: Call, wanted: Any) -> Any:
    fetched = _fetch(call, wanted.group_id, wanted.topics)
    return _Group(
        group_id=wanted.group_id,
        error_code=fetched.error,
        topics=[]
        if fetched.error is not ErrorCode.NONE
        else _topics(fetched, wanted.topics, _GroupTopic, _GroupPartition),
    )


def _fetch(call: Call, group_id: str, topics: Any) -> OffsetFetchResult:
    """Return the group's commits for `topics`; None: all commits."""
    wanted = None
    if topics is not None:
        wanted = [TopicPartition(topic.name, number) for topic in topics for number in topic.partition_indexes]
    return call.groups.fetch_offsets(group_id, wanted)


def _topics(fetched: OffsetFetchResult, wanted: Any, topic_type: Any, partition_type: Any) -> list[Any]:
    """Return the response's topics: the requested topics, or all topics with a commit."""
    if wanted is None:
        topics = list(by_topic(list(fetched.offsets)).items())
    else:
        topics = [(topic.name, tuple(topic.partition_indexes)) for topic in wanted]  # a topic may come twice
    return [
        topic_type(
            name=name,
            partitions=[_partition(partition_type, TopicPartition(name, number), fetched) for number in numbers],
        )
        for name, numbers in topics
    ]


def _partition(partition_type: Any, partition: TopicPartition, fetched: OffsetFetchResult) -> Any:
    committed = fetched.offsets.get(partition, NO_COMMIT)
    return partition_type(
        partition_index=partition.partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=fetched.error,
    )
