"""Encoded subscriptions and assignments. Golden bytes: kafka-clients 4.1.0 (`ConsumerProtocol.serialize…`)."""

import struct
from contextlib import suppress

import attrs
import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from sarameya.errors import ProtocolError
from sarameya.model import TopicPartition
from sarameya.protocol.assignors import Subscription
from sarameya.protocol.rebalance import (
    decode_assignment,
    decode_subscription,
    decode_user_data,
    encode_assignment,
    encode_subscription,
    encode_user_data,
)

USER_DATA = b"\xff\x00\x01"
OWNED = {"clicks": (0,), "orders": (0, 2)}

BARE = Subscription(("clicks", "orders"))
FULL = Subscription(("clicks", "orders"), USER_DATA, OWNED, generation_id=7, rack_id="rack-a")

_TOPICS = "000000020006636c69636b7300066f7264657273"
_USER_DATA = "00000003ff0001"
_PARTITIONS = "000000020006636c69636b73000000010000000000066f7264657273000000020000000000000002"

JAVA_BARE = {
    0: "0000" + _TOPICS + "ffffffff",
    1: "0001" + _TOPICS + "ffffffff" + "00000000",
    2: "0002" + _TOPICS + "ffffffff" + "00000000" + "ffffffff",
    3: "0003" + _TOPICS + "ffffffff" + "00000000" + "ffffffff" + "ffff",
}
JAVA_FULL = {
    0: "0000" + _TOPICS + _USER_DATA,
    1: "0001" + _TOPICS + _USER_DATA + _PARTITIONS,
    2: "0002" + _TOPICS + _USER_DATA + _PARTITIONS + "00000007",
    3: "0003" + _TOPICS + _USER_DATA + _PARTITIONS + "00000007" + "00067261636b2d61",
}
JAVA_ASSIGNMENT = {version: f"{version:04x}" + _PARTITIONS + _USER_DATA for version in range(4)}


@pytest.mark.parametrize(("subscription", "golden"), [(BARE, JAVA_BARE[3]), (FULL, JAVA_FULL[3])])
def test_encoded_subscription_equals_the_java_clients(subscription, golden):
    assert encode_subscription(subscription).hex() == golden


def test_encoded_subscription_is_sorted_as_java_does():
    shuffled = attrs.evolve(FULL, topics=("orders", "clicks"), owned_partitions={"orders": (2, 0), "clicks": (0,)})
    assert encode_subscription(shuffled).hex() == JAVA_FULL[3]


def test_subscription_does_not_carry_the_instance_id():
    assert encode_subscription(attrs.evolve(FULL, group_instance_id="one")).hex() == JAVA_FULL[3]


@pytest.mark.parametrize("version", range(4))
def test_java_subscription_of_each_version_decodes(version):
    expected = Subscription(
        ("clicks", "orders"),
        USER_DATA,
        owned_partitions=OWNED if version >= 1 else {},
        generation_id=7 if version >= 2 else -1,
        rack_id="rack-a" if version >= 3 else "",
    )
    assert decode_subscription(bytes.fromhex(JAVA_FULL[version])) == expected
    assert decode_subscription(bytes.fromhex(JAVA_BARE[version])) == BARE


def test_subscription_of_a_newer_version_decodes():
    assert decode_subscription(bytes.fromhex("0009" + JAVA_FULL[3][4:] + "00ab00cd")) == FULL


@pytest.mark.parametrize("version", range(4))
def test_java_assignment_of_each_version_decodes(version):
    assert decode_assignment(bytes.fromhex(JAVA_ASSIGNMENT[version])) == (OWNED, USER_DATA)


def test_encoded_assignment_equals_the_java_clients():
    assert encode_assignment({"orders": (0, 2), "clicks": (0,)}, USER_DATA).hex() == JAVA_ASSIGNMENT[3]
    assert encode_assignment({"orders": (0, 2), "clicks": (0,)}).hex() == "0003" + _PARTITIONS + "ffffffff"
    assert encode_assignment({}).hex() == "000300000000ffffffff"


def test_assignment_of_a_newer_version_decodes():
    assert decode_assignment(bytes.fromhex("0004" + JAVA_ASSIGNMENT[3][4:] + "ff")) == (OWNED, USER_DATA)


def test_assignment_of_no_bytes_is_empty():
    assert decode_assignment(b"") == ({}, None)


def test_assignment_with_a_repeated_topic_is_merged():
    row = ConsumerProtocolAssignment.TopicPartition
    message = ConsumerProtocolAssignment(
        assigned_partitions=[row(topic="t", partitions=[3]), row(topic="t", partitions=[1, 3])], user_data=None
    )
    assert decode_assignment(message.encode(version=1)) == ({"t": (1, 3)}, None)


def test_null_arrays_are_read_as_empty():
    assert decode_subscription(bytes.fromhex("0001" + "ffffffff" + "ffffffff" + "ffffffff")) == Subscription(())
    assert decode_assignment(bytes.fromhex("0001" + "ffffffff" + "ffffffff")) == ({}, None)


def test_aiokafka_decodes_our_bytes():
    metadata = ConsumerProtocolMemberMetadata.decode(encode_subscription(FULL))
    assert (metadata.subscription, metadata.user_data) == (["clicks", "orders"], USER_DATA)
    assignment = ConsumerProtocolMemberAssignment.decode(encode_assignment(OWNED, USER_DATA))
    assert {(p.topic, p.partition) for p in assignment.partitions()} == {("clicks", 0), ("orders", 0), ("orders", 2)}


def test_bytes_of_aiokafka_are_decoded():
    metadata = ConsumerProtocolMemberMetadata(0, ["orders", "clicks"], b"")
    assert decode_subscription(metadata.encode()) == Subscription(("orders", "clicks"), b"")
    assignment = ConsumerProtocolMemberAssignment(0, [("orders", [2, 0]), ("clicks", [0])], b"")
    assert decode_assignment(assignment.encode()) == (OWNED, b"")


@pytest.mark.parametrize("version", range(4))
def test_bytes_of_kafka_python_are_decoded(version):
    row = ConsumerProtocolSubscription.TopicPartition
    message = ConsumerProtocolSubscription(
        topics=["orders"], user_data=b"", owned_partitions=[row(topic="orders", partitions=[1, 0])], version=version
    )
    decoded = decode_subscription(message.encode())
    assert decoded.topics == ("orders",)
    assert decoded.owned_partitions == ({"orders": (0, 1)} if version else {})


GARBAGE = [
    ("one byte", "00"),
    ("unknown version", "ffff" + "00000000" + "ffffffff"),
    ("topics cut off", "0001" + "00000002" + "0001" + "61"),
    ("more topics than bytes", "0000" + "7fffffff"),
    ("topic longer than its bytes", "0000" + "00000001" + "7fff" + "61"),
    ("topic that is not UTF-8", "0000" + "00000001" + "0002" + "fffe" + "ffffffff"),
    ("null topic", "0000" + "00000001" + "ffff" + "ffffffff"),
    ("empty topic", "0000" + "00000001" + "0000" + "ffffffff"),
    ("user data longer than its bytes", "0000" + "00000000" + "7fffffff" + "00"),
]


@pytest.mark.parametrize("data", [g[1] for g in GARBAGE], ids=[g[0] for g in GARBAGE])
def test_garbage_subscription_is_a_protocol_error(data):
    with pytest.raises(ProtocolError):
        decode_subscription(bytes.fromhex(data))


@pytest.mark.parametrize(
    "data",
    [
        "00",
        "0000" + "7fffffff",
        "0001" + "00000001" + "0001" + "61" + "7fffffff",
        "0001" + "00000001" + "0001" + "61" + "00000001" + "80000000" + "ffffffff",
        "0001" + "00000001" + "ffff" + "00000001" + "00000000" + "ffffffff",
    ],
    ids=["one byte", "more topics than bytes", "more partitions than bytes", "negative partition", "null topic"],
)
def test_garbage_assignment_is_a_protocol_error(data):
    with pytest.raises(ProtocolError):
        decode_assignment(bytes.fromhex(data))


@given(st.binary(max_size=80) | st.binary(max_size=80).map(lambda tail: b"\0\3" + tail))
def test_random_bytes_decode_or_raise_a_protocol_error(data):
    for decode in (decode_subscription, decode_assignment):
        with suppress(ProtocolError):
            decode(data)


_topics = st.text(min_size=1, max_size=12)
_assignments = st.dictionaries(
    _topics, st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=5).map(lambda ps: tuple(sorted(ps))), max_size=5
)


@given(
    st.builds(
        Subscription,
        topics=st.sets(_topics, max_size=5).map(lambda topics: tuple(sorted(topics))),
        user_data=st.none() | st.binary(max_size=20),
        owned_partitions=_assignments,
        generation_id=st.integers(-1, 2**31 - 1),
        rack_id=st.text(max_size=10),
    )
)
def test_any_subscription_survives_the_wire(subscription):
    assert decode_subscription(encode_subscription(subscription)) == subscription


@given(_assignments, st.none() | st.binary(max_size=20))
def test_any_assignment_survives_the_wire(assignment, user_data):
    assert decode_assignment(encode_assignment(assignment, user_data)) == (assignment, user_data)


# -- partitions added while the group runs -------------------------------------------------------------


ADDED = [TopicPartition("orders", 2), TopicPartition("orders", 3), TopicPartition("returns", 0)]
_own = st.none() | st.binary(max_size=20)
_kafka_topics = st.from_regex(r"[a-zA-Z0-9._-]{1,12}", fullmatch=True)


def test_user_data_without_additions_is_unchanged() -> None:
    assert encode_user_data(None, []) is None
    assert encode_user_data(b"", []) == b""
    assert encode_user_data(USER_DATA, []) == USER_DATA


@given(_own, st.sets(st.builds(TopicPartition, _kafka_topics, st.integers(0, 2**31 - 1)), max_size=5))
def test_user_data_and_additions_round_trip(own, added):
    assert decode_user_data(encode_user_data(own, added)) == (own, sorted(added))


@pytest.mark.parametrize("own", [None, b"", USER_DATA])
def test_user_data_with_our_own_suffix_stays_the_assignors(own):
    encoded = encode_user_data(own, ADDED)
    assert decode_user_data(encode_user_data(encoded, [])) == (encoded, [])
    assert decode_user_data(encode_user_data(encoded, ADDED)) == (encoded, ADDED)


def test_user_data_of_the_assignor_comes_first():
    assert encode_user_data(USER_DATA, ADDED).startswith(USER_DATA)


def test_members_can_claim_user_data_as_sticky_user_data():
    # Sarama's members do so. Its and Java's leaders can read all of it as version 1 of the sticky assignor's user data.
    data = encode_user_data(None, ADDED)
    claim = StickyAssignorUserData.decode(data, version=1, header=False)
    rows = {row.topic: row.partitions for row in claim.previous_assignment}
    assert {topic: numbers for topic, numbers in rows.items() if not topic.startswith("~")} == {
        "orders": [2, 3],
        "returns": [0],
    }
    assert bytes(claim.encode(version=1, header=False)) == data, "no byte is left over"
    assert claim.generation == -1


@pytest.mark.parametrize(
    "user_data",
    [
        None,
        b"",
        b"another client's",
        encode_user_data(USER_DATA, ADDED)[:-1],
        encode_user_data(USER_DATA, ADDED)[1:],
        encode_user_data(None, ADDED)[1:],
        encode_user_data(None, ADDED)[4:],
    ],
)
def test_user_data_of_others_has_no_additions(user_data: bytes | None) -> None:
    assert decode_user_data(user_data) == (user_data, [])


@given(st.binary(max_size=60), st.integers(-(2**31), 2**31 - 1))
def test_any_user_data_with_our_suffix_is_ours_or_untouched(start, number):
    data = start + encode_user_data(None, ADDED)[-27:-8] + struct.pack(">ii", number, -1)
    own, added = decode_user_data(data)
    assert (own, added) == (data, []) or (len(own or b"") + 1 == number or own is None)
