from sarameya.error_codes import ErrorCode
from sarameya.protocol.assignors import TopicLayout
from sarameya.protocol.cluster.metadata import Broker, ClusterMetadata, PartitionMetadata, TopicMetadata


def cluster(*, racks, replicas):
    brokers = {node_id: Broker(node_id, "host", 9092, rack) for node_id, rack in racks.items()}
    partitions = {number: PartitionMetadata(leader=nodes[0], replicas=nodes) for number, nodes in enumerate(replicas)}
    return ClusterMetadata(brokers, {"t": TopicMetadata("t", ErrorCode.NONE, partitions)})


def test_layout_has_the_racks_of_each_partitions_replicas():
    metadata = cluster(racks={1: "a", 2: "b", 3: "a"}, replicas=[(1, 2), (1, 3)])
    assert metadata.layouts(["t"]) == {"t": TopicLayout(2, {0: frozenset("ab"), 1: frozenset("a")})}


def test_layout_of_a_cluster_without_racks_has_none():
    assert cluster(racks={1: None, 2: ""}, replicas=[(1, 2)]).layouts(["t"]) == {"t": TopicLayout(1)}


def test_layout_omits_missing_and_rackless_brokers():
    metadata = cluster(racks={1: "a", 2: None}, replicas=[(1, 2), (2,), (9, 1), (9,)])
    assert metadata.layouts(["t"]) == {"t": TopicLayout(4, {0: frozenset("a"), 2: frozenset("a")})}


def test_layouts_omit_unknown_topics():
    metadata = ClusterMetadata({}, {"gone": TopicMetadata("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
    assert metadata.layouts(["gone", "never heard of"]) == {}
