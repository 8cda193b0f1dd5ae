"""Fetch requests have the bytes that kafka-python encodes, in every version of the client."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest as KafkaPythonFetchRequest

from sarameya.model import TopicPartition
from sarameya.protocol.fetch.fetch_request import FetchRequest
from sarameya.protocol.fetch.fetch_session import FetchPlan, PartitionFetch
from sarameya.protocol.versions import CLIENT_VERSIONS, Api

VERSIONS = range(CLIENT_VERSIONS[Api.FETCH].low, CLIENT_VERSIONS[Api.FETCH].high + 1)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.sampled_from(["orders", "päyments", "t", "a" * 249])
topic_ids = st.none() | st.sampled_from([uuid.UUID(int=0), uuid.UUID(int=7), uuid.UUID(int=2**128 - 1)])
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
partition_fetches = st.builds(PartitionFetch, int64, int32, int32, topic_ids)
plans = st.builds(
    FetchPlan,
    int32,
    int32,
    st.dictionaries(partitions, partition_fetches, max_size=8),
    st.lists(st.tuples(partitions, topic_ids), max_size=8).map(tuple),
)
numbers_and_rack = st.fixed_dictionaries(
    {
        "max_wait_ms": int32,
        "min_bytes": int32,
        "max_bytes": int32,
        "isolation_level": st.sampled_from([0, 1]),
        "rack_id": st.text(max_size=200),
    }
)
MANY = FetchPlan(
    1,
    2,
    {TopicPartition("many", number): PartitionFetch(number, 1) for number in range(300)},
    tuple((TopicPartition(f"topic-{number}", 0), None) for number in range(300)),
)
ORDINARY = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 2**20, "isolation_level": 1, "rack_id": "a rack"}


def encoded_by_kafka_python(version: int, plan: FetchPlan, **more: Any) -> bytes:
    """Return the request encoded by kafka-python, which omits fields that a version does not have."""
    topics = [
        KafkaPythonFetchRequest.FetchTopic(
            topic=topic,
            topic_id=topic_id or uuid.UUID(int=0),
            partitions=[
                KafkaPythonFetchRequest.FetchTopic.FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=fetch.leader_epoch,
                    fetch_offset=fetch.position,
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=fetch.max_bytes,
                )
                for partition, fetch in plan.partitions.items()
                if (partition.topic, fetch.topic_id) == (topic, topic_id)
            ],
        )
        for topic, topic_id in unique((partition.topic, fetch.topic_id) for partition, fetch in plan.partitions.items())
    ]
    forgotten = [
        KafkaPythonFetchRequest.ForgottenTopic(
            topic=topic,
            topic_id=topic_id or uuid.UUID(int=0),
            partitions=[tp.partition for tp, id_ in plan.forgotten if (tp.topic, id_) == (topic, topic_id)],
        )
        for topic, topic_id in unique((tp.topic, id_) for tp, id_ in plan.forgotten)
    ]
    request = KafkaPythonFetchRequest[version](
        replica_id=-1,
        session_id=plan.session_id,
        session_epoch=plan.session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten,
        **more,
    )
    return bytes(request.encode())


def unique(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))


@given(st.sampled_from(VERSIONS), plans, numbers_and_rack)
@example(17, MANY, ORDINARY)
@example(12, MANY, ORDINARY)
def test_request_is_encoded_as_by_kafka_python(version: int, plan: FetchPlan, more: dict[str, Any]) -> None:
    request = FetchRequest[version](plan=plan, **more)
    assert request.encode() == encoded_by_kafka_python(version, plan, **more)
    assert request.API_KEY == KafkaPythonFetchRequest.API_KEY
    assert version == request.API_VERSION


@pytest.mark.parametrize("version", VERSIONS)
def test_header_has_tagged_fields_as_in_kafka_python(version: int) -> None:
    assert FetchRequest.flexible_version_q(version) == KafkaPythonFetchRequest.flexible_version_q(version)


def test_number_out_of_range_is_refused() -> None:
    plan = FetchPlan(0, 0, {TopicPartition("t", 0): PartitionFetch(2**63, 1)})
    with pytest.raises(struct.error):
        FetchRequest[17](plan=plan, **ORDINARY).encode()
