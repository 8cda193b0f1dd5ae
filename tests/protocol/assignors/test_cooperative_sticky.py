import attrs
import pytest

from sarameya.protocol.assignors import CooperativeStickyAssignor, RebalanceProtocol, Subscription
from sarameya.protocol.assignors.sticky import PreviousAssignment, encode_previous_assignment
from sarameya.protocol.rebalance import decode_subscription
from tests.protocol.assignors.kit import alike, counts, in_racks, layouts, next_round, owning, settled

NAME = "cooperative-sticky"


def assign(members, topics):
    return CooperativeStickyAssignor().assign(members, topics)


def member(topics, owned, generation=1):
    return owning(NAME, Subscription(tuple(topics)), owned, generation)


def test_both_protocols_are_supported():
    assert CooperativeStickyAssignor.protocols == {RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER}


def test_moving_partition_is_revoked_before_it_is_assigned():
    topics = layouts({"t": 4})
    members = {"A": member(["t"], {"t": (0, 1, 2, 3)}), "B": Subscription(("t",))}
    first = assign(members, topics)
    assert first == {"A": {"t": (0, 1)}, "B": {}}
    assert assign(next_round(NAME, members, first, 2), topics) == {"A": {"t": (0, 1)}, "B": {"t": (2, 3)}}


def test_partitions_of_a_departed_member_are_assigned_at_once():
    members = {"A": member(["t"], {"t": (0,)}), "B": member(["t"], {"t": (2,)})}
    assert assign(members, layouts({"t": 4})) == {"A": {"t": (0, 1)}, "B": {"t": (2, 3)}}


def test_partition_claimed_twice_is_first_revoked_from_both():
    members = {
        "A": member(["t"], {"t": (0, 1)}, 5),
        "B": member(["t"], {"t": (0, 2)}, 5),
        "C": member(["t"], {}, 5),
    }
    first = assign(members, layouts({"t": 3}))
    assert first == {"A": {"t": (1,)}, "B": {"t": (2,)}, "C": {}}
    assert assign(next_round(NAME, members, first, 6), layouts({"t": 3}))["C"] == {"t": (0,)}


def test_partition_claimed_twice_is_returned_to_neither():
    members = {"A": member(["t"], {"t": (0,)}, 5), "B": member(["t"], {"t": (0, 1)}, 5)}
    assert assign(members, layouts({"t": 2})) == {"A": {}, "B": {"t": (1,)}}


def test_partition_claimed_twice_stays_with_the_higher_generation():
    members = {"A": member(["t"], {"t": (0, 1)}, 4), "B": member(["t"], {"t": (1, 2)}, 5)}
    assert assign(members, layouts({"t": 4})) == {"A": {"t": (0, 3)}, "B": {"t": (1, 2)}}


def test_stale_claim_is_revoked_before_the_partition_moves():
    # B rightly owns all partitions and must revoke two. A wrongly claims one of those, but may still read it.
    members = {"A": member(["t"], {"t": (3,)}, 4), "B": member(["t"], {"t": (0, 1, 2, 3)}, 5)}
    assert assign(members, layouts({"t": 4})) == {"A": {}, "B": {"t": (0, 1)}}


def test_partition_of_a_dropped_topic_waits_for_its_revocation():
    members = {"A": member(["u"], {"t": (0,), "u": (0,)}), "B": member(["t"], {"t": (1,)})}
    topics = layouts({"t": 2, "u": 1})
    first = assign(members, topics)
    assert first == {"A": {"u": (0,)}, "B": {"t": (1,)}}
    assert assign(next_round(NAME, members, first, 2), topics) == {"A": {"u": (0,)}, "B": {"t": (0, 1)}}


def test_owned_partition_that_no_longer_exists_is_ignored():
    members = {"A": member(["t", "gone"], {"t": (0, 9), "gone": (0,)}), "B": member(["t"], {"t": (1,)})}
    assert assign(members, layouts({"t": 2})) == {"A": {"t": (0,)}, "B": {"t": (1,)}}


def test_racks_are_matched_in_two_rounds():
    topics = {"t": in_racks("b", "a")}
    members = {
        "A": attrs.evolve(member(["t"], {"t": (0,)}), rack_id="a"),
        "B": attrs.evolve(member(["t"], {"t": (1,)}), rack_id="b"),
    }
    assert assign(members, topics) == {"A": {}, "B": {}}
    assert settled(NAME, members, topics, rounds=2) == {"A": {"t": (1,)}, "B": {"t": (0,)}}


def test_eager_protocol_assigns_everything_at_once():
    result = assign(alike("AB", "t"), layouts({"t": 4}))
    assert result == {"A": {"t": (0, 2)}, "B": {"t": (1, 3)}}


# -- the generation ----------------------------------------------------------------------------------


def test_user_data_is_the_generation_of_the_last_assignment():
    assignor = CooperativeStickyAssignor()
    assert assignor.subscription_user_data().hex() == "ffffffff"
    assignor.on_assignment({"t": (0,)}, None, 10)
    assert assignor.subscription_user_data().hex() == "0000000a"


def claiming(user_data, generation_id=-1):
    return Subscription(("t",), user_data, {"t": (0,)}, generation_id)


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        (claiming(None, 7), claiming(bytes.fromhex("00000009"), 6)),
        (claiming(bytes.fromhex("00000007")), claiming(bytes.fromhex("00000006"))),
        (claiming(bytes.fromhex("00000007")), claiming(None)),
        (claiming(bytes.fromhex("00000007")), claiming(b"")),
        (claiming(bytes.fromhex("00000007")), claiming(b"\0\0\7")),
        (claiming(encode_previous_assignment(PreviousAssignment({"t": (0,)}, 7))), claiming(bytes.fromhex("00000006"))),
    ],
    ids=["in the subscription", "Java before KIP-792", "none at all", "empty", "no generation", "librdkafka, franz-go"],
)
@pytest.mark.parametrize("newer_first", [True, False])
def test_generation_comes_from_subscription_or_user_data(newer, older, newer_first):
    names = ("A", "B") if newer_first else ("B", "A")
    result = assign(dict(zip(names, (newer, older), strict=True)), layouts({"t": 1}))
    assert result[names[0]] == {"t": (0,)}


# The bytes that librdkafka 2.x members write, user data included, recorded from a group of two of them.
LIBRDKAFKA = (
    "0003" + "00000002" + "0006636c69636b73" + "00066f7264657273"
    "00000020" + "00000001" + "00066f7264657273" + "00000003" + "00000001" + "00000002" + "00000003" + "00000002"
    "00000001" + "00066f7264657273" + "00000003" + "00000001" + "00000002" + "00000003"
    "00000002" + "00027231"
)  # fmt: skip


def test_librdkafkas_subscription_is_decoded():
    subscription = decode_subscription(bytes.fromhex(LIBRDKAFKA))
    assert (subscription.owned_partitions, subscription.generation_id) == ({"orders": (1, 2, 3)}, 2)
    members = {"rdkafka": subscription, "ours": member(["clicks", "orders"], {}, 2)}
    result = assign(members, layouts({"clicks": 2, "orders": 4}))
    assert result == {"rdkafka": {"orders": (1, 2, 3)}, "ours": {"clicks": (0, 1), "orders": (0,)}}
    assert counts(result) == [3, 3]
