"""Merging of Metadata responses: changes that are accepted, and changes that are ignored."""

from __future__ import annotations

import uuid

import pytest

from sarameya.error_codes import ErrorCode
from sarameya.protocol.cluster.metadata import Broker, ClusterMetadata, PartitionMetadata, TopicMetadata
from sarameya.protocol.cluster.metadata_merger import CONFIRMATIONS, MetadataMerger

FIRST_ID, SECOND_ID = uuid.UUID(int=1), uuid.UUID(int=2)


def topic_metadata(*epochs: int, topic_id: uuid.UUID | None = FIRST_ID) -> ClusterMetadata:
    """Return a topic with partitions of these epochs, each led by the node of its epoch's number, and one such node."""
    partitions = {number: PartitionMetadata(leader=epoch, leader_epoch=epoch) for number, epoch in enumerate(epochs)}
    last = max(epochs)
    return ClusterMetadata(
        {last: Broker(last, "host", 9092)}, {"t": TopicMetadata("t", ErrorCode.NONE, partitions, topic_id)}
    )


def merger(*responses: ClusterMetadata) -> MetadataMerger:
    merged = MetadataMerger()
    for response in responses:
        merged.merge(response)
    return merged


def epochs(merged: MetadataMerger) -> list[int]:
    partitions = merged.current.topics["t"].partitions
    assert all(partition.leader == partition.leader_epoch for partition in partitions.values())
    return [partitions[number].leader_epoch for number in sorted(partitions)]


def test_leader_of_an_earlier_epoch_is_ignored() -> None:
    lagging = topic_metadata(4, 5, 6)
    merged = merger(topic_metadata(5, 5, 5), *[lagging] * 5)
    assert epochs(merged) == [5, 5, 6]
    assert merged.current.brokers == lagging.brokers, "all else is as in the last response"
    assert not merged.has_doubts


@pytest.mark.parametrize(("before", "after"), [(FIRST_ID, None), (None, FIRST_ID), (None, None)])
def test_earlier_leader_epoch_is_accepted_without_topic_ids(before: uuid.UUID | None, after: uuid.UUID | None) -> None:
    assert epochs(merger(topic_metadata(5, topic_id=before), topic_metadata(0, topic_id=after))) == [0]


def test_topic_missing_in_a_response_is_not_kept() -> None:
    assert not merger(topic_metadata(5, 5), ClusterMetadata()).current.topics


def all_topics(*names: str) -> ClusterMetadata:
    one = {0: PartitionMetadata(leader=1, leader_epoch=0)}
    topics = {name: TopicMetadata(name, ErrorCode.NONE, one, FIRST_ID) for name in names}
    return ClusterMetadata({1: Broker(1, "host", 9092)}, topics, has_all_topics=True)


def test_topic_missing_among_all_topics_is_kept_until_confirmed() -> None:
    merged = merger(all_topics("a", "b"), all_topics("a"), all_topics("a"))
    assert (merged.current.topics.keys(), merged.has_doubts) == ({"a", "b"}, True)
    merged.merge(all_topics("a"))
    assert (merged.current.topics.keys(), merged.has_doubts) == ({"a"}, False)


def test_topic_missing_in_every_other_response_is_kept() -> None:
    merged = merger(all_topics("a", "b"), *[all_topics("a"), all_topics("a", "b")] * 3)
    assert not merged.has_doubts
    merged.merge(all_topics("a"))
    assert merged.current.topics.keys() == {"a", "b"}


def test_added_partitions_are_accepted_at_once() -> None:
    merged = merger(topic_metadata(1, 1), topic_metadata(1, 1, 1))
    assert (epochs(merged), merged.has_doubts) == ([1, 1, 1], False)


@pytest.mark.parametrize("topic_id", [FIRST_ID, None])
def test_fewer_partitions_are_accepted_after_several_responses(topic_id: uuid.UUID | None) -> None:
    fewer = topic_metadata(2, topic_id=topic_id)
    merged = merger(topic_metadata(1, 1, topic_id=topic_id))
    for _ in range(CONFIRMATIONS - 1):
        merged.merge(fewer)
        assert (epochs(merged), merged.has_doubts) == ([2, 1], True)
    merged.merge(fewer)
    assert (epochs(merged), merged.has_doubts) == ([2], False)


def test_lagging_broker_removes_no_partitions() -> None:
    merged = merger(*[topic_metadata(1, 1), topic_metadata(0), topic_metadata(0)] * 5)
    assert epochs(merged) == [1, 1]


def test_new_topic_id_is_accepted_after_several_responses() -> None:
    recreated = topic_metadata(0, topic_id=SECOND_ID)
    merged = merger(topic_metadata(5, 5))
    for _ in range(CONFIRMATIONS - 1):
        merged.merge(recreated)
        assert (epochs(merged), merged.has_doubts) == ([5, 5], True)
    merged.merge(recreated)
    assert (epochs(merged), merged.has_doubts) == ([0], False)
    assert merged.current.topics["t"].topic_id == SECOND_ID


def test_alternating_topic_ids_are_not_accepted() -> None:
    merged = merger(*[topic_metadata(1), topic_metadata(1, topic_id=SECOND_ID)] * 5)
    assert merged.current.topics["t"].topic_id == FIRST_ID


def test_new_topic_id_is_accepted_despite_a_lagging_broker() -> None:
    recreated = topic_metadata(0, topic_id=SECOND_ID)
    merged = merger(topic_metadata(5), *[recreated, recreated, topic_metadata(5)] * 2)
    assert merged.current.topics["t"].topic_id == SECOND_ID
    for response in [recreated, recreated, topic_metadata(5)] * 5:
        assert merged.merge(response).topics["t"].topic_id == SECOND_ID


def brokers(*node_ids: int) -> ClusterMetadata:
    return ClusterMetadata({node_id: Broker(node_id, "host", 9092) for node_id in node_ids})


def test_missing_broker_is_kept_until_confirmed() -> None:
    merged = merger(brokers(1, 2, 3), brokers(1, 3), brokers(1))
    assert merged.current.brokers.keys() == {1, 2, 3}
    assert not merged.has_doubts, "no quick confirmation is needed"
    merged.merge(brokers(1))
    assert merged.current.brokers.keys() == {1, 3}


def test_broker_missing_in_every_other_response_is_kept() -> None:
    merged = merger(brokers(1, 2), *[brokers(1), brokers(1, 2)] * 3, brokers(1))
    assert merged.current.brokers.keys() == {1, 2}
