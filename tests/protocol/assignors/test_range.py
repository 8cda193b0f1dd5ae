import pytest

from sarameya.protocol.assignors import RangeAssignor, Subscription
from tests.protocol.assignors.kit import layouts


def assign(members, partitions):
    subscriptions = {m: Subscription(tuple(topics)) for m, topics in members.items()}
    return RangeAssignor().assign(subscriptions, layouts(partitions))


def test_ten_partitions_among_three_members():
    assert assign({"C1": ["T1"], "C2": ["T1"], "C3": ["T1"]}, {"T1": 10}) == {
        "C1": {"T1": (0, 1, 2, 3)},
        "C2": {"T1": (4, 5, 6)},
        "C3": {"T1": (7, 8, 9)},
    }


def test_two_topics_of_ten_give_the_first_member_two_more():
    both = ["T1", "T2"]
    assert assign({"C1": both, "C2": both, "C3": both}, {"T1": 10, "T2": 10}) == {
        "C1": {"T1": (0, 1, 2, 3), "T2": (0, 1, 2, 3)},
        "C2": {"T1": (4, 5, 6), "T2": (4, 5, 6)},
        "C3": {"T1": (7, 8, 9), "T2": (7, 8, 9)},
    }


@pytest.mark.parametrize(
    ("members", "expected"),
    [(3, [(0,), (1,), (2,)]), (2, [(0, 1), (2,)]), (4, [(0,), (1,), (2,), None])],
    ids=["one each", "two and one", "one member idle"],
)
def test_three_partitions_among(members, expected):
    names = [f"C{n}" for n in range(members)]
    result = assign({name: ["T"] for name in names}, {"T": 3})
    assert [result[name].get("T") for name in names] == expected


def test_two_members_with_two_streams_each_share_five_partitions():
    streams = ["C1_0", "C1_1", "C2_0", "C2_1"]
    assert assign({name: ["T"] for name in streams}, {"T": 5}) == {
        "C1_0": {"T": (0, 1)},
        "C1_1": {"T": (2,)},
        "C2_0": {"T": (3,)},
        "C2_1": {"T": (4,)},
    }


def test_java_s_example_of_two_topics_of_three():
    both = ["t0", "t1"]
    assert assign({"C0": both, "C1": both}, {"t0": 3, "t1": 3}) == {
        "C0": {"t0": (0, 1), "t1": (0, 1)},
        "C1": {"t0": (2,), "t1": (2,)},
    }


def test_members_not_subscribed_to_a_topic_get_none_of_it():
    assert assign({"C1": ["T1"], "C2": ["T1", "T2"], "C3": ["T1"]}, {"T1": 3, "T2": 2}) == {
        "C1": {"T1": (0,)},
        "C2": {"T1": (1,), "T2": (0, 1)},
        "C3": {"T1": (2,)},
    }


def test_topics_nobody_subscribes_to_or_that_do_not_exist_are_left_out():
    assert assign({"C1": ["T", "missing"]}, {"T": 1, "other": 3, "empty": 0}) == {"C1": {"T": (0,)}}


def test_static_members_come_first_and_by_instance_id():
    members = {
        "a": Subscription(("T",)),
        "x": Subscription(("T",), group_instance_id="2"),
        "y": Subscription(("T",), group_instance_id="1"),
    }
    assert RangeAssignor().assign(members, layouts({"T": 3})) == {"y": {"T": (0,)}, "x": {"T": (1,)}, "a": {"T": (2,)}}
