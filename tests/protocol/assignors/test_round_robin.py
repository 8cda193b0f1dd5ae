import pytest

from sarameya.model import TopicPartition
from sarameya.protocol.assignors import RoundRobinAssignor, Subscription
from sarameya.protocol.assignors.round_robin import assign_in_turn
from tests.protocol.assignors.kit import layouts


def assign(members, partitions):
    subscriptions = {m: Subscription(tuple(topics)) for m, topics in members.items()}
    return RoundRobinAssignor().assign(subscriptions, layouts(partitions))


def test_ordered_partitions_go_to_the_members_in_turn():
    deck = [TopicPartition("T", number) for number in (5, 3, 0, 8, 2, 1, 4, 7, 6, 9)]
    assigned = assign_in_turn(deck, dict.fromkeys(("C1", "C2", "C3"), Subscription(("T",))))
    assert {member: [p.partition for p in partitions] for member, partitions in assigned.items()} == {
        "C1": [5, 8, 4, 9],
        "C2": [3, 2, 7],
        "C3": [0, 1, 6],
    }


def test_unwanted_partition_is_skipped():
    deck = [TopicPartition("other", 0), TopicPartition("T", 0), TopicPartition("other", 1), TopicPartition("T", 1)]
    assigned = assign_in_turn(deck, dict.fromkeys(("C1", "C2"), Subscription(("T",))))
    assert assigned == {"C1": [TopicPartition("T", 0)], "C2": [TopicPartition("T", 1)]}


def test_assignment_without_members_is_empty():
    assert assign_in_turn([TopicPartition("T", 0)], {}) == {}


def test_same_members_get_the_same_partitions_again():
    members = {"C1": ["T1", "T2"], "C2": ["T1", "T2"], "C3": ["T2"]}
    partitions = {"T1": 7, "T2": 5}
    assert assign(members, partitions) == assign(dict(reversed(members.items())), dict(reversed(partitions.items())))


def test_javas_example_of_equal_subscriptions():
    both = ["t0", "t1"]
    assert assign({"C0": both, "C1": both}, {"t0": 3, "t1": 3}) == {
        "C0": {"t0": (0, 2), "t1": (1,)},
        "C1": {"t0": (1,), "t1": (0, 2)},
    }


def test_javas_example_of_unequal_subscriptions_round_robin():
    members = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}
    assert assign(members, {"t0": 1, "t1": 2, "t2": 3}) == {
        "C0": {"t0": (0,)},
        "C1": {"t1": (0,)},
        "C2": {"t1": (1,), "t2": (0, 1, 2)},
    }


@pytest.mark.parametrize("ids", [("m1", "m2", "m3"), ("m9", "m4", "m6")], ids=["before", "after a rolling restart"])
def test_static_members_keep_partitions_under_new_ids(ids):
    members = {
        member: Subscription(("t1", "t2"), group_instance_id=f"i{number}") for number, member in enumerate(ids, 1)
    }
    result = RoundRobinAssignor().assign(members, layouts({"t1": 5, "t2": 5}))
    assert [result[member] for member in ids] == [
        {"t1": (0, 3), "t2": (1, 4)},
        {"t1": (1, 4), "t2": (2,)},
        {"t1": (2,), "t2": (0, 3)},
    ]


def test_static_member_comes_before_a_dynamic_one():
    both = ("t1", "t2")
    members = {"a": Subscription(both), "b": Subscription(both, group_instance_id="z")}
    assert RoundRobinAssignor().assign(members, layouts({"t1": 3, "t2": 3}))["b"] == {"t1": (0, 2), "t2": (1,)}
