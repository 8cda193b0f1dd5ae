"""Merging of Metadata responses: the parts that are believed."""

from __future__ import annotations

import uuid

import pytest

from sarameya.error_codes import ErrorCode
from sarameya.protocol.cluster.metadata import Broker, ClusterMetadata, PartitionMetadata, TopicMetadata
from sarameya.protocol.cluster.metadata_merger import CONFIRMATIONS, MetadataMerger

FIRST_ID, SECOND_ID = uuid.UUID(int=1), uuid.UUID(int=2)


def told(*epochs: int, topic_id: uuid.UUID | None = FIRST_ID) -> ClusterMetadata:
    """A topic with partitions of these epochs, each led by the node that has its epoch's number; and one of those."""
    partitions = {number: PartitionMetadata(leader=epoch, leader_epoch=epoch) for number, epoch in enumerate(epochs)}
    last = max(epochs)
    return ClusterMetadata(
        {last: Broker(last, "host", 9092)}, {"t": TopicMetadata("t", ErrorCode.NONE, partitions, topic_id)}
    )


def merger(*answers: ClusterMetadata) -> MetadataMerger:
    merged = MetadataMerger()
    for answer in answers:
        merged.merge(answer)
    return merged


def epochs(merged: MetadataMerger) -> list[int]:
    partitions = merged.current.topics["t"].partitions
    assert all(partition.leader == partition.leader_epoch for partition in partitions.values())
    return [partitions[number].leader_epoch for number in sorted(partitions)]


def test_leader_of_an_earlier_epoch_is_ignored() -> None:
    lagging = told(4, 5, 6)
    merged = merger(told(5, 5, 5), *[lagging] * 5)
    assert epochs(merged) == [5, 5, 6]
    assert merged.current.brokers == lagging.brokers, "all else is as it was told last"
    assert not merged.has_doubts


@pytest.mark.parametrize(("before", "after"), [(FIRST_ID, None), (None, FIRST_ID), (None, None)])
def test_earlier_leader_epoch_is_believed_where_there_are_no_ids(
    before: uuid.UUID | None, after: uuid.UUID | None
) -> None:
    assert epochs(merger(told(5, topic_id=before), told(0, topic_id=after))) == [0]


def test_topic_that_is_not_told_of_is_not_kept() -> None:
    assert not merger(told(5, 5), ClusterMetadata()).current.topics


def all_topics(*names: str) -> ClusterMetadata:
    one = {0: PartitionMetadata(leader=1, leader_epoch=0)}
    topics = {name: TopicMetadata(name, ErrorCode.NONE, one, FIRST_ID) for name in names}
    return ClusterMetadata({1: Broker(1, "host", 9092)}, topics, has_all_topics=True)


def test_topic_that_all_topics_lack_is_kept_until_responses_in_a_row_confirm_it() -> None:
    merged = merger(all_topics("a", "b"), all_topics("a"), all_topics("a"))
    assert (merged.current.topics.keys(), merged.has_doubts) == ({"a", "b"}, True)
    merged.merge(all_topics("a"))
    assert (merged.current.topics.keys(), merged.has_doubts) == ({"a"}, False)


def test_topic_that_every_other_response_lacks_is_kept() -> None:
    merged = merger(all_topics("a", "b"), *[all_topics("a"), all_topics("a", "b")] * 3)
    assert not merged.has_doubts
    merged.merge(all_topics("a"))
    assert merged.current.topics.keys() == {"a", "b"}


def test_partitions_that_were_added_are_believed_at_once() -> None:
    merged = merger(told(1, 1), told(1, 1, 1))
    assert (epochs(merged), merged.has_doubts) == ([1, 1, 1], False)


@pytest.mark.parametrize("topic_id", [FIRST_ID, None])
def test_fewer_partitions_are_accepted_after_several_responses(topic_id: uuid.UUID | None) -> None:
    fewer = told(2, topic_id=topic_id)
    merged = merger(told(1, 1, topic_id=topic_id))
    for _ in range(CONFIRMATIONS - 1):
        merged.merge(fewer)
        assert (epochs(merged), merged.has_doubts) == ([2, 1], True)
    merged.merge(fewer)
    assert (epochs(merged), merged.has_doubts) == ([2], False)


def test_broker_that_lags_behind_the_others_takes_nothing_back() -> None:
    merged = merger(*[told(1, 1), told(0), told(0)] * 5)
    assert epochs(merged) == [1, 1]


def test_new_topic_id_is_accepted_after_several_responses() -> None:
    again = told(0, topic_id=SECOND_ID)
    merged = merger(told(5, 5))
    for _ in range(CONFIRMATIONS - 1):
        merged.merge(again)
        assert (epochs(merged), merged.has_doubts) == ([5, 5], True)
    merged.merge(again)
    assert (epochs(merged), merged.has_doubts) == ([0], False)
    assert merged.current.topics["t"].topic_id == SECOND_ID


def test_ids_that_alternate_are_not_believed() -> None:
    merged = merger(*[told(1), told(1, topic_id=SECOND_ID)] * 5)
    assert merged.current.topics["t"].topic_id == FIRST_ID


def test_new_topic_id_is_accepted_despite_a_lagging_broker() -> None:
    again = told(0, topic_id=SECOND_ID)
    merged = merger(told(5), *[again, again, told(5)] * 2)
    assert merged.current.topics["t"].topic_id == SECOND_ID
    for answer in [again, again, told(5)] * 5:
        assert merged.merge(answer).topics["t"].topic_id == SECOND_ID


def brokers(*node_ids: int) -> ClusterMetadata:
    return ClusterMetadata({node_id: Broker(node_id, "host", 9092) for node_id in node_ids})


def test_missing_broker_is_kept_until_responses_in_a_row_confirm_it() -> None:
    merged = merger(brokers(1, 2, 3), brokers(1, 3), brokers(1))
    assert merged.current.brokers.keys() == {1, 2, 3}
    assert not merged.has_doubts, "nobody has to know it soon"
    merged.merge(brokers(1))
    assert merged.current.brokers.keys() == {1, 3}


def test_broker_that_every_other_response_lacks_is_kept() -> None:
    merged = merger(brokers(1, 2), *[brokers(1), brokers(1, 2)] * 3, brokers(1))
    assert merged.current.brokers.keys() == {1, 2}
