import pytest

from sarameya.protocol.assignors import RangeAssignor, Subscription
from tests.protocol.assignors.kit import in_racks, layouts


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
def test_three_partitions_are_divided_among_members(members, expected):
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


def test_javas_example_of_two_topics_with_three_partitions():
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


def test_unsubscribed_or_missing_topics_are_left_out():
    assert assign({"C1": ["T", "missing"]}, {"T": 1, "other": 3, "empty": 0}) == {"C1": {"T": (0,)}}


def test_static_members_come_first_and_by_instance_id():
    members = {
        "a": Subscription(("T",)),
        "x": Subscription(("T",), group_instance_id="2"),
        "y": Subscription(("T",), group_instance_id="1"),
    }
    assert RangeAssignor().assign(members, layouts({"T": 3})) == {"y": {"T": (0,)}, "x": {"T": (1,)}, "a": {"T": (2,)}}


# -- racks -------------------------------------------------------------------------------------------


def in_rack(*topics, **racks):
    return {member: Subscription(topics, rack_id=rack) for member, rack in racks.items()}


def test_rack_matches_are_assigned_first_and_counts_stay():
    result = RangeAssignor().assign(
        in_rack("t", M1="a", M2="b", M3="c"), {"t": in_racks("a", "b", "c", "a", "b", "c", "a")}
    )
    assert result == {"M1": {"t": (0, 3, 6)}, "M2": {"t": (1, 4)}, "M3": {"t": (2, 5)}}


def test_member_with_one_more_may_depend_on_racks():
    result = RangeAssignor().assign(in_rack("t", M1="a", M2="b"), {"t": in_racks("a", "b", "b")})
    assert result == {"M1": {"t": (0,)}, "M2": {"t": (1, 2)}}


def test_co_partitioning_comes_before_racks():
    members = in_rack("t", "u", M1="a", M2="b")
    apart = {"t": in_racks("a", "b", "a", "b"), "u": in_racks("b", "a", "b", "a")}
    assert RangeAssignor().assign(members, apart) == {
        "M1": {"t": (0, 1), "u": (0, 1)},
        "M2": {"t": (2, 3), "u": (2, 3)},
    }
    together = {"t": in_racks("b", "a", "b", "a"), "u": in_racks("b", "a", "b", "a")}
    assert RangeAssignor().assign(members, together) == {
        "M1": {"t": (1, 3), "u": (1, 3)},
        "M2": {"t": (0, 2), "u": (0, 2)},
    }


def test_racks_that_match_nobody_change_nothing():
    members = in_rack("t", M1="x", M2="y")
    assert RangeAssignor().assign(members, {"t": in_racks("b", "a", "b")}) == {"M1": {"t": (0, 1)}, "M2": {"t": (2,)}}


def test_replicas_in_every_rack_change_nothing():
    members = in_rack("t", M1="b", M2="a")
    assert RangeAssignor().assign(members, {"t": in_racks("ab", "ab", "ab")}) == {
        "M1": {"t": (0, 1)},
        "M2": {"t": (2,)},
    }
