"""A request to fetch, as kafka-python would write it, in every version we speak."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest as Theirs

from sarameya.model import TopicPartition
from sarameya.protocol.fetch.fetch_request import FetchRequest
from sarameya.protocol.fetch.fetch_session import FetchPlan, PartitionFetch
from sarameya.protocol.versions import CLIENT_VERSIONS, Api

SPOKEN = range(CLIENT_VERSIONS[Api.FETCH].low, CLIENT_VERSIONS[Api.FETCH].high + 1)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.sampled_from(["orders", "päyments", "t", "a" * 249])
topic_ids = st.none() | st.sampled_from([uuid.UUID(int=0), uuid.UUID(int=7), uuid.UUID(int=2**128 - 1)])
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
asks = st.builds(PartitionFetch, int64, int32, int32, topic_ids)
plans = st.builds(
    FetchPlan,
    int32,
    int32,
    st.dictionaries(partitions, asks, max_size=8),
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


def theirs(version: int, plan: FetchPlan, **more: Any) -> bytes:
    """Written by kafka-python, which leaves out what a version does not have."""
    asked = [
        Theirs.FetchTopic(
            topic=topic,
            topic_id=topic_id or uuid.UUID(int=0),
            partitions=[
                Theirs.FetchTopic.FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=ask.leader_epoch,
                    fetch_offset=ask.position,
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=ask.max_bytes,
                )
                for partition, ask in plan.partitions.items()
                if (partition.topic, ask.topic_id) == (topic, topic_id)
            ],
        )
        for topic, topic_id in unique((partition.topic, ask.topic_id) for partition, ask in plan.partitions.items())
    ]
    forgotten = [
        Theirs.ForgottenTopic(
            topic=topic,
            topic_id=topic_id or uuid.UUID(int=0),
            partitions=[tp.partition for tp, id_ in plan.forgotten if (tp.topic, id_) == (topic, topic_id)],
        )
        for topic, topic_id in unique((tp.topic, id_) for tp, id_ in plan.forgotten)
    ]
    request = Theirs[version](
        replica_id=-1,
        session_id=plan.session_id,
        session_epoch=plan.session_epoch,
        topics=asked,
        forgotten_topics_data=forgotten,
        **more,
    )
    return bytes(request.encode())


def unique(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))


@given(st.sampled_from(SPOKEN), plans, numbers_and_rack)
@example(17, MANY, ORDINARY)
@example(12, MANY, ORDINARY)
def test_request_is_written_as_kafka_python_writes_it(version: int, plan: FetchPlan, more: dict[str, Any]) -> None:
    request = FetchRequest[version](plan=plan, **more)
    assert request.encode() == theirs(version, plan, **more)
    assert request.API_KEY == Theirs.API_KEY
    assert version == request.API_VERSION


@pytest.mark.parametrize("version", SPOKEN)
def test_header_has_tagged_fields_as_in_kafka_python(version: int) -> None:
    assert FetchRequest.flexible_version_q(version) == Theirs.flexible_version_q(version)


def test_number_that_does_not_fit_is_refused() -> None:
    plan = FetchPlan(0, 0, {TopicPartition("t", 0): PartitionFetch(2**63, 1)})
    with pytest.raises(struct.error):
        FetchRequest[17](plan=plan, **ORDINARY).encode()
