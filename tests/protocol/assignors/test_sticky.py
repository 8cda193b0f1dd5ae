import pytest

from sarameya.protocol.assignors import StickyAssignor, Subscription
from sarameya.protocol.assignors.sticky import (
    PreviousAssignment,
    decode_previous_assignment,
    encode_previous_assignment,
)
from tests.protocol.assignors.kit import (
    alike,
    counts,
    in_racks,
    layouts,
    members_of,
    mismatches,
    moved,
    next_round,
    owning,
)

FOUR_TOPICS_OF_TWO = layouts({"t0": 2, "t1": 2, "t2": 2, "t3": 2})
THREE_MEMBERS = alike(["C0", "C1", "C2"], "t0", "t1", "t2", "t3")
FIRST = {
    "C0": {"t0": (0,), "t1": (1,), "t3": (0,)},
    "C1": {"t0": (1,), "t2": (0,), "t3": (1,)},
    "C2": {"t1": (0,), "t2": (1,)},
}


def assign(members, topics):
    return StickyAssignor().assign(members, topics)


def rejoining(members, before, generation=1):
    return next_round("sticky", members, before, generation)


def test_four_topics_of_two_are_first_assigned_in_turn():
    assert assign(THREE_MEMBERS, FOUR_TOPICS_OF_TWO) == FIRST


def test_other_members_keep_their_partitions_and_share_c1s():
    survivors = {member: THREE_MEMBERS[member] for member in ("C0", "C2")}
    assert assign(rejoining(survivors, FIRST), FOUR_TOPICS_OF_TWO) == {
        "C0": {"t0": (0,), "t1": (1,), "t2": (0,), "t3": (0,)},
        "C2": {"t0": (1,), "t1": (0,), "t2": (1,), "t3": (1,)},
    }


def test_javas_example_of_unequal_subscriptions_sticky():
    members = members_of({"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]})
    topics = layouts({"t0": 1, "t1": 2, "t2": 3})
    first = assign(members, topics)
    assert first == {"C0": {"t0": (0,)}, "C1": {"t1": (0, 1)}, "C2": {"t2": (0, 1, 2)}}

    del members["C0"]
    assert assign(rejoining(members, first), topics) == {
        "C1": {"t0": (0,), "t1": (0, 1)},
        "C2": {"t2": (0, 1, 2)},
    }


def test_new_member_gets_a_share_of_every_topic():
    topics = layouts({"a": 12, "b": 12})
    members = members_of({"C1": ["a", "b"]})
    alone = assign(members, topics)
    members |= members_of({"C2": ["a", "b"]})
    two = assign(rejoining(members, alone), topics)
    assert two == {
        "C1": {"a": (0, 1, 2, 3, 4, 5), "b": (0, 1, 2, 3, 4, 5)},
        "C2": {"a": (6, 7, 8, 9, 10, 11), "b": (6, 7, 8, 9, 10, 11)},
    }
    members |= members_of({"C3": ["a", "b"], "C4": ["a", "b"]})
    four = assign(rejoining(members, two), topics)
    assert all(len(numbers) == 3 for rows in four.values() for numbers in rows.values())


def test_partition_claimed_twice_goes_to_the_higher_generation():
    members = alike("AB", "t")
    members = {
        "A": owning("sticky", members["A"], {"t": (0, 1)}, generation=4),
        "B": owning("sticky", members["B"], {"t": (1, 2)}, generation=5),
    }
    assert assign(members, layouts({"t": 4})) == {"A": {"t": (0, 3)}, "B": {"t": (1, 2)}}


def test_partition_claimed_twice_in_a_generation_is_lost_by_both():
    members = alike("ABC", "t")
    members["A"] = owning("sticky", members["A"], {"t": (0, 1)}, generation=5)
    members["B"] = owning("sticky", members["B"], {"t": (0, 2)}, generation=5)
    assert assign(members, layouts({"t": 3})) == {"A": {"t": (1,)}, "B": {"t": (2,)}, "C": {"t": (0,)}}


def test_older_claim_does_not_win_over_two_equal_ones():
    members = alike("ABC", "t")
    for member, generation in (("A", 5), ("B", 3), ("C", 5)):
        members[member] = owning("sticky", members[member], {"t": (0,)}, generation)
    members["B"] = owning("sticky", Subscription(("t",)), {"t": (0, 1)}, 3)
    assert assign(members, layouts({"t": 3})) == {"A": {"t": (0,)}, "B": {"t": (1,)}, "C": {"t": (2,)}}


def test_claim_of_a_dropped_topic_yields_to_an_older_one():
    members = {
        "A": owning("sticky", Subscription(("t",)), {"t": (0,)}, generation=1),
        "B": owning("sticky", Subscription(("u",)), {"t": (0,)}, generation=2),
        "0": Subscription(("t", "u")),
    }
    result = assign(members, layouts({"t": 2, "u": 1}))
    assert result["A"]["t"] == (0,)


def test_claims_of_missing_partitions_are_ignored():
    claims = {"t": (-1, 0, 7), "gone": (0, 1), "": (0,)}
    members = {"A": owning("sticky", Subscription(("t", "gone")), claims), "B": Subscription(("t",))}
    assert assign(members, layouts({"t": 2})) == {"A": {"t": (0,)}, "B": {"t": (1,)}}


def test_member_without_topics_gets_nothing():
    members = members_of({"A": [], "B": ["t", "u"], "C": ["u", "t"], "D": ["missing"]})
    result = assign(members, layouts({"t": 2, "u": 2}))
    assert result == {"A": {}, "B": {"t": (0,), "u": (0,)}, "C": {"t": (1,), "u": (1,)}, "D": {}}


def test_balance_is_reached_through_a_third_member():
    # A can take none of C's excess partitions. B can, and can give A another one in exchange.
    members = members_of({"A": ["a"], "B": ["a", "b"], "C": ["b"]})
    before = {"B": {"a": (0, 1)}, "C": {"b": (0, 1, 2, 3)}}
    result = assign(rejoining(members, before), layouts({"a": 2, "b": 4}))
    assert counts(result) == [2, 2, 2]
    assert len(moved(before, result)) == 4


def test_new_partitions_move_before_owned_ones():
    # Assigned to the least loaded member in turn, the new ones leave C1 with too many and C2 with too few.
    members = members_of({"C0": ["t1", "t2"], "C1": ["t0", "t1", "t2"], "C2": ["t0", "t1"]})
    before = {"C0": {"t1": (0,)}}
    result = assign(rejoining(members, before), layouts({"t0": 2, "t1": 1, "t2": 3}))
    assert moved(before, result) == set()
    assert counts(result) == [2, 2, 2]


def test_restarted_static_member_keeps_its_place():
    topics = layouts({"t": 3})

    def group(*ids):
        return {member: Subscription(("t",), group_instance_id=f"i{n}") for n, member in enumerate(ids)}

    first = assign(group("m1", "m2", "m3"), topics)
    restarted = assign(rejoining(group("m1", "x9", "m3"), first), topics)
    assert restarted == {"m1": first["m1"], "x9": first["m2"], "m3": first["m3"]}


def test_group_without_members_or_topics_is_assigned_nothing():
    assert assign({}, layouts({"t": 2})) == {}
    assert assign(members_of({"A": ["t"]}), {}) == {"A": {}}
    assert assign(members_of({"A": ["t"]}), layouts({"t": 0})) == {"A": {}}


# -- racks -------------------------------------------------------------------------------------------


def in_rack(**racks):
    return {member: Subscription(("t",), rack_id=rack) for member, rack in racks.items()}


def test_members_get_partitions_with_a_replica_in_their_rack():
    topics = {"t": in_racks("a", "b", "c", "c", "b", "a")}
    assert assign(in_rack(M1="c", M2="a", M3="b"), topics) == {
        "M1": {"t": (2, 3)},
        "M2": {"t": (0, 5)},
        "M3": {"t": (1, 4)},
    }


def test_balance_comes_before_racks():
    topics = {"t": in_racks("a", "a", "a", "b")}
    result = assign(in_rack(M1="a", M2="b"), topics)
    assert result["M2"]["t"][-1] == 3
    assert len(result["M1"]["t"]) == len(result["M2"]["t"]) == 2


def test_racks_come_before_stickiness_but_matches_stay():
    members = in_rack(M1="a", M2="b")
    topics = {"t": in_racks("a", "b", "a", "b")}
    before = {"M1": {"t": (1, 2)}, "M2": {"t": (0, 3)}}
    assert assign(rejoining(members, before), topics) == {"M1": {"t": (0, 2)}, "M2": {"t": (1, 3)}}


def test_rack_match_is_found_through_other_members():
    # Partition 0 matches only M2, whose partition matches already. That one also fits M3, whose partition also fits M1.
    members = in_rack(M1="a", M2="b", M3="c")
    topics = {"t": in_racks("b", "bc", "ca")}
    before = {"M1": {"t": (0,)}, "M2": {"t": (1,)}, "M3": {"t": (2,)}}
    result = assign(rejoining(members, before), topics)
    assert result == {"M1": {"t": (2,)}, "M2": {"t": (0,)}, "M3": {"t": (1,)}}


def test_member_with_one_more_partition_is_chosen_by_racks():
    topics = {"t": in_racks("c", "b")}
    assert assign(in_rack(M1="a", M2="b", M3="c"), topics) == {"M1": {}, "M2": {"t": (1,)}, "M3": {"t": (0,)}}


def test_member_with_too_many_gives_a_mismatched_partition():
    members = in_rack(M1="a", M2="c")
    topics = {"t": in_racks("b", "a", "a", "b")}
    before = {"M1": {"t": (0, 1, 2)}, "M2": {"t": (3,)}}
    assert assign(rejoining(members, before), topics) == {"M1": {"t": (1, 2)}, "M2": {"t": (0, 3)}}


def test_missing_racks_match_everything():
    topics = {"t": in_racks("b", "", "a")}
    members = in_rack(M1="a", M2="", M3="c")
    result = assign(members, topics)
    assert result == {"M1": {"t": (2,)}, "M2": {"t": (0,)}, "M3": {"t": (1,)}}
    assert mismatches(result, members, topics) == 0


@pytest.mark.parametrize(
    ("racks", "replicas"),
    [
        ({"M1": "", "M2": ""}, ("b", "a", "b", "a")),
        ({"M1": "x", "M2": "y"}, ("b", "a", "b", "a")),
        ({"M1": "b", "M2": "a"}, ("ab", "ab", "ab", "ab")),
        ({"M1": "b", "M2": "a"}, ("", "", "", "")),
    ],
    ids=["members without racks", "other racks", "replicas everywhere", "racks unknown"],
)
def test_racks_that_cannot_help_change_nothing(racks, replicas):
    assert assign(in_rack(**racks), {"t": in_racks(*replicas)}) == {"M1": {"t": (0, 2)}, "M2": {"t": (1, 3)}}


# -- user data of a member ---------------------------------------------------------------------------


def test_user_data_is_the_last_assignment_and_generation():
    assignor = StickyAssignor()
    assert assignor.subscription_user_data() is None
    assignor.on_assignment({"t": (0, 2)}, b"whatever a leader sent", 7)
    assert decode_previous_assignment(assignor.subscription_user_data()) == PreviousAssignment({"t": (0, 2)}, 7)
    assignor.on_assignment({}, None, 8)
    assert decode_previous_assignment(assignor.subscription_user_data()) == PreviousAssignment({}, 8)


def test_user_data_of_kafkas_first_version_has_no_generation():
    assert decode_previous_assignment(
        encode_previous_assignment(PreviousAssignment({"t": (0, 2)}, 7))[:-4]
    ) == PreviousAssignment({"t": (0, 2)}, -1)


NO_CLAIMS = [
    ("none", None),
    ("empty", b""),
    ("one byte", b"\0"),
    ("more topics than bytes", b"\x7f\xff\xff\xff"),
    ("topic longer than its bytes", b"\0\0\0\1\0\5ab"),
    ("not UTF-8", b"\0\0\0\1\0\2\xff\xfe\0\0\0\0"),
    ("more partitions than bytes", b"\0\0\0\1\0\1t\x7f\xff\xff\xff"),
]


@pytest.mark.parametrize("data", [data for _, data in NO_CLAIMS], ids=[name for name, _ in NO_CLAIMS])
def test_invalid_user_data_claims_nothing(data):
    assert decode_previous_assignment(data) == PreviousAssignment()
    members = {"A": Subscription(("t",), user_data=data), "B": Subscription(("t",))}
    assert assign(members, layouts({"t": 2})) == {"A": {"t": (0,)}, "B": {"t": (1,)}}
