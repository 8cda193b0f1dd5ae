"""Properties of every assignor, on random groups; kafka-python's and aiokafka's assignors are the oracles."""

from typing import get_args

import attrs
import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AiokafkaRoundRobin
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor as KafkaPythonRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as KafkaPythonRoundRobin
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from sarameya.config import RebalanceStrategy
from sarameya.model import topic_partitions
from sarameya.protocol.assignors import (
    ASSIGNORS,
    Assignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    Subscription,
)
from tests.protocol.assignors.kit import layouts

TOPICS = ["t0", "t1", "t10", "t2", "u"]

member_ids = st.text("abcXYZ0123-", min_size=1, max_size=6)
subscriptions = st.builds(
    Subscription,
    topics=st.lists(st.sampled_from([*TOPICS, "missing"]), unique=True).map(tuple),
    group_instance_id=st.none() | st.text("abc012", min_size=1, max_size=4),
)
groups = st.dictionaries(member_ids, subscriptions, max_size=8)
partition_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 20))

every_assignor = pytest.mark.parametrize("assignor", [cls() for cls in ASSIGNORS.values()], ids=list(ASSIGNORS))


class OracleCluster:
    """Cluster metadata from which the oracles read the partitions."""

    def __init__(self, partitions):
        self._partitions = partitions

    def partitions_for_topic(self, topic):
        count = self._partitions.get(topic)
        return None if count is None else set(range(count))


class OracleMember:
    def __init__(self, member_id, subscription):
        self.member_id = member_id
        self.group_instance_id = subscription.group_instance_id
        self.metadata = ConsumerProtocolSubscription(0, list(subscription.topics), b"")


def plain(rows_by_member):
    return {member: {topic: tuple(ps) for topic, ps in rows if ps} for member, rows in rows_by_member.items()}


def kafka_python(assignor, members, partitions):
    # kafka-python groups only neighbours: with the static members first, it sorts as Kafka does.
    listed = sorted(members.items(), key=lambda item: item[1].group_instance_id is None)
    result = assignor.assign(OracleCluster(partitions), [OracleMember(*item) for item in listed])
    return plain({member: assignment.assigned_partitions for member, assignment in result.items()})


def aiokafka(assignor, members, partitions):
    metadata = {m: ConsumerProtocolMemberMetadata(0, list(s.topics), b"") for m, s in members.items()}
    result = assignor.assign(OracleCluster(partitions), metadata)
    return plain({member: assignment.assignment for member, assignment in result.items()})


def without_static_members(members):
    return {member: attrs.evolve(subscription, group_instance_id=None) for member, subscription in members.items()}


@every_assignor
@given(members=groups, partitions=partition_counts)
def test_each_wanted_partition_is_assigned_once_to_a_subscriber(assignor, members, partitions):
    result = assignor.assign(members, layouts(partitions))

    assert result.keys() == members.keys()
    for member, assignment in result.items():
        assert assignment.keys() <= set(members[member].topics)
        assert all(ps and list(ps) == sorted(ps) for ps in assignment.values())
    assigned = [partition for assignment in result.values() for partition in topic_partitions(assignment)]
    wanted = {topic for subscription in members.values() for topic in subscription.topics}
    assert sorted(assigned) == sorted((t, p) for t, count in partitions.items() if t in wanted for p in range(count))


@every_assignor
@given(members=groups, partitions=partition_counts, data=st.data())
def test_result_does_not_depend_on_any_order(assignor, members, partitions, data):
    shuffled = {m: members[m] for m in data.draw(st.permutations(list(members)))}
    shuffled_counts = {t: partitions[t] for t in data.draw(st.permutations(list(partitions)))}
    assert assignor.assign(shuffled, layouts(shuffled_counts)) == assignor.assign(members, layouts(partitions))


@given(members=groups, partitions=partition_counts)
def test_range_counts_differ_by_one_and_runs_are_contiguous(members, partitions):
    result = RangeAssignor().assign(members, layouts(partitions))
    for topic in partitions:
        runs = [result[m].get(topic, ()) for m, subscription in members.items() if topic in subscription.topics]
        assert not runs or max(map(len, runs)) - min(map(len, runs)) <= 1
        assert all(run == tuple(range(run[0], run[-1] + 1)) for run in runs if run)


@given(members=groups, partitions=st.integers(0, 20))
def test_range_co_partitions_topics_of_equal_count(members, partitions):
    members = {m: Subscription(("t0", "t1"), group_instance_id=s.group_instance_id) for m, s in members.items()}
    for assignment in RangeAssignor().assign(members, layouts({"t0": partitions, "t1": partitions})).values():
        assert assignment.get("t0") == assignment.get("t1")


@given(members=groups, partitions=partition_counts)
def test_round_robin_counts_differ_by_one_at_most(members, partitions):
    members = dict.fromkeys(members, Subscription(tuple(TOPICS)))
    counts = [len(topic_partitions(a)) for a in RoundRobinAssignor().assign(members, layouts(partitions)).values()]
    assert not counts or max(counts) - min(counts) <= 1


@given(members=groups, partitions=partition_counts)
def test_range_agrees_with_kafka_python(members, partitions):
    result = RangeAssignor().assign(members, layouts(partitions))
    assert result == kafka_python(KafkaPythonRange, members, partitions)


@given(members=groups, partitions=partition_counts)
def test_round_robin_agrees_with_kafka_python(members, partitions):
    # kafka-python 3.0 raises a KeyError if subscriptions differ.
    members = {member: attrs.evolve(subscription, topics=("t0", "t1", "u")) for member, subscription in members.items()}
    result = RoundRobinAssignor().assign(members, layouts(partitions))
    assert result == kafka_python(KafkaPythonRoundRobin, members, partitions)


@given(members=groups, partitions=partition_counts)
def test_range_and_round_robin_agree_with_aiokafka(members, partitions):
    members = without_static_members(members)
    assert RangeAssignor().assign(members, layouts(partitions)) == aiokafka(AiokafkaRange, members, partitions)
    assert RoundRobinAssignor().assign(members, layouts(partitions)) == aiokafka(
        AiokafkaRoundRobin, members, partitions
    )


def test_registry_has_each_configurable_strategy_by_name():
    assert set(ASSIGNORS) == set(get_args(RebalanceStrategy))
    assert all(cls.name == name for name, cls in ASSIGNORS.items())


def test_custom_assignor_is_eager_without_user_data_by_default():
    class Own(Assignor):
        name = "own"

        def assign(self, members, topics):
            return {member: {} for member in members}

    own = Own()
    assert own.protocols == {RebalanceProtocol.EAGER}
    assert own.subscription_user_data() is None
    assert own.assignment_user_data("m", {}) is None
    own.on_assignment({}, None, 1)
