"""Helpers of OffsetCommit and OffsetDelete: a request entry, and an error code in the response, for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sarameya.embedded.apis.call import Call
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition


def rows(body: Any) -> dict[TopicPartition, Any]:
    """Return the request's entry for each partition."""
    return {TopicPartition(topic.name, p.partition_index): p for topic in body.topics for p in topic.partitions}


def missing(call: Call, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Return the error code of each of `partitions` that does not exist."""
    codes: dict[TopicPartition, ErrorCode] = {}
    for partition in partitions:
        try:
            call.cluster.topics.partition(*partition)
        except Refused as refused:
            codes[partition] = refused.code
    return codes


def answered(body: Any, codes: Mapping[TopicPartition, ErrorCode], topic_type: Any, partition_type: Any) -> list[Any]:
    """Return the response's topics: the topics of the request, with an error code for each partition."""
    return [
        topic_type(
            name=topic.name,
            partitions=[
                partition_type(
                    partition_index=p.partition_index, error_code=codes[TopicPartition(topic.name, p.partition_index)]
                )
                for p in topic.partitions
            ],
        )
        for topic in body.topics
    ]
