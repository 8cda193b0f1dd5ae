import uuid

import pytest

from sarameya.error_codes import ErrorCode
from sarameya.protocol.assignors import TopicLayout
from sarameya.protocol.metadata import Broker, ClusterMetadata, Partition, Topic


def cluster(*, racks, replicas):
    brokers = {node_id: Broker(node_id, "host", 9092, rack) for node_id, rack in racks.items()}
    partitions = {number: Partition(leader=nodes[0], replicas=nodes) for number, nodes in enumerate(replicas)}
    return ClusterMetadata(brokers, {"t": Topic("t", ErrorCode.NONE, partitions)})


def test_layout_has_the_racks_of_each_partition_s_replicas():
    metadata = cluster(racks={1: "a", 2: "b", 3: "a"}, replicas=[(1, 2), (1, 3)])
    assert metadata.layouts(["t"]) == {"t": TopicLayout(2, {0: frozenset("ab"), 1: frozenset("a")})}


def test_layout_of_a_cluster_without_racks_has_none():
    assert cluster(racks={1: None, 2: ""}, replicas=[(1, 2)]).layouts(["t"]) == {"t": TopicLayout(1)}


def test_layout_leaves_out_brokers_that_are_away_or_have_no_rack():
    metadata = cluster(racks={1: "a", 2: None}, replicas=[(1, 2), (2,), (9, 1), (9,)])
    assert metadata.layouts(["t"]) == {"t": TopicLayout(4, {0: frozenset("a"), 2: frozenset("a")})}


def test_layouts_leave_out_topics_that_are_not_known():
    metadata = ClusterMetadata({}, {"gone": Topic("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
    assert metadata.layouts(["gone", "never heard of"]) == {}


FIRST_ID, SECOND_ID = uuid.UUID(int=1), uuid.UUID(int=2)


def told(*epochs, topic_id=FIRST_ID):
    """A topic with partitions of these epochs, each led by the node that has its epoch's number; and one of those."""
    partitions = {number: Partition(leader=epoch, leader_epoch=epoch) for number, epoch in enumerate(epochs)}
    last = max(epochs)
    return ClusterMetadata({last: Broker(last, "host", 9092)}, {"t": Topic("t", ErrorCode.NONE, partitions, topic_id)})


def epochs(metadata):
    partitions = metadata.topics["t"].partitions
    assert all(partition.leader == partition.leader_epoch for partition in partitions.values())
    return [partitions[number].leader_epoch for number in sorted(partitions)]


def test_leader_of_an_earlier_epoch_than_the_known_one_is_not_believed():
    known, lagging = told(5, 5, 5), told(4, 5, 6)
    merged = lagging.keeping_newer(known)
    assert epochs(merged) == [5, 5, 6]
    assert merged.brokers == lagging.brokers, "all else is as it was told last"


@pytest.mark.parametrize(("before", "after"), [(FIRST_ID, SECOND_ID), (FIRST_ID, None), (None, FIRST_ID), (None, None)])
def test_leader_of_an_earlier_epoch_is_believed_where_the_topic_may_be_another_one(before, after):
    assert epochs(told(0, topic_id=after).keeping_newer(told(5, topic_id=before))) == [0]


def test_what_is_not_told_of_any_more_is_not_kept():
    known = told(5, 5)
    assert epochs(told(4).keeping_newer(known)) == [5]
    assert ClusterMetadata().keeping_newer(known) == ClusterMetadata()
