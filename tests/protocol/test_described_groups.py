"""Decoding of a coordinator's responses: members with readable bytes, and with unreadable ones."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DescribeGroupsResponse, ListGroupsResponse

from sarameya.protocol.assignors.base import Subscription
from sarameya.protocol.cluster.described_groups import (
    CLASSIC,
    CONSUMER,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    classic_group,
    consumer_group,
    listed_groups,
)
from sarameya.protocol.cluster.metadata import Broker
from sarameya.protocol.rebalance import encode_assignment, encode_subscription
from sarameya.protocol.schemas import ConsumerGroupDescribeResponse

BROKER = Broker(1, "kafka", 9092)
Classic = DescribeGroupsResponse.DescribedGroup
ConsumerType = ConsumerGroupDescribeResponse.DescribedGroup


def classic(*members: Any, state: str = "Stable", protocol_type: str = "consumer") -> DescribedGroup:
    described = Classic(
        error_code=0,
        group_id="g",
        group_state=state,
        protocol_type=protocol_type,
        protocol_data="range" if state == "Stable" else "",
        members=list(members),
    )
    return classic_group(described, BROKER)


def classic_member(name: str, metadata: bytes, assignment: bytes, instance: str | None = None) -> Any:
    return Classic.DescribedGroupMember(
        member_id=f"{name}-id",
        group_instance_id=instance,
        client_id=name,
        client_host="/10.0.0.1",
        member_metadata=metadata,
        member_assignment=assignment,
    )


SUBSCRIPTION = encode_subscription(Subscription(("payments", "orders")))


def test_stable_member_has_its_subscription_and_assignment() -> None:
    group = classic(classic_member("a", SUBSCRIPTION, encode_assignment({"orders": (0, 1)}), instance="one"))
    assert group == DescribedGroup(
        "g",
        "Stable",
        BROKER,
        CLASSIC,
        "consumer",
        "range",
        (DescribedMember("a-id", "a", "/10.0.0.1", "one", ("orders", "payments"), {"orders": (0, 1)}),),
    )


def test_member_omitted_by_the_leader_is_assigned_nothing() -> None:
    (member,) = classic(classic_member("a", SUBSCRIPTION, b"")).members
    assert (member.assignment, member.problem) == ({}, "")


@pytest.mark.parametrize(
    ("metadata", "assignment", "problem"),
    [
        (b"\x00", encode_assignment({}), "a group member sent bytes that are not a ConsumerProtocolSubscription"),
        (
            SUBSCRIPTION,
            b"\x00\x01\x7f\xff\xff\xff",
            "a group member sent bytes that are not a ConsumerProtocolAssignment",
        ),
    ],
)
def test_undecodable_member_metadata_is_reported(metadata: bytes, assignment: bytes, problem: str) -> None:
    broken, intact = classic(
        classic_member("a", metadata, assignment),
        classic_member("b", SUBSCRIPTION, encode_assignment({"orders": (0,)})),
    ).members
    assert (broken.member_id, broken.assignment) == ("a-id", None)
    assert broken.problem.startswith(problem)
    assert intact.assignment == {"orders": (0,)}


def test_member_of_a_rebalancing_group_has_no_known_assignment() -> None:
    (member,) = classic(classic_member("a", b"", b""), state="PreparingRebalance").members
    assert (member.assignment, member.problem) == (None, "not known while the group rebalances")


def test_metadata_of_another_protocol_is_not_decoded() -> None:
    group = classic(classic_member("a", SUBSCRIPTION, encode_assignment({"orders": (0,)})), protocol_type="connect")
    assert group.members[0].assignment is None
    assert group.members[0].problem == "not decoded: the group's protocol is 'connect'"


def test_members_are_ordered_by_client_then_by_id() -> None:
    names = ["b", "a", "c"]
    group = classic(*(classic_member(name, SUBSCRIPTION, b"") for name in names))
    assert [member.client_id for member in group.members] == ["a", "b", "c"]


def consumer_member(topics: list[str], assigned: dict[str, list[int]]) -> Any:
    member = ConsumerType.Member
    rows = [
        member.Assignment.TopicPartitions(topic_name=topic, partitions=numbers) for topic, numbers in assigned.items()
    ]
    return member(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=topics,
        assignment=member.Assignment(topic_partitions=rows),
    )


def test_consumer_group_describes_its_assignments() -> None:
    described = ConsumerType(
        group_id="g",
        group_state="Reconciling",
        assignor_name="uniform",
        members=[consumer_member(["orders"], {"orders": [3, 0]})],
    )
    assert consumer_group(described, BROKER) == DescribedGroup(
        "g",
        "Reconciling",
        BROKER,
        CONSUMER,
        "consumer",
        "uniform",
        (DescribedMember("m", "c", "/h", None, ("orders",), {"orders": (0, 3)}),),
    )


def test_topics_of_a_pattern_are_the_assigned_ones() -> None:
    described = ConsumerType(group_id="g", group_state="Stable", members=[consumer_member([], {"b": [0], "a": [1]})])
    assert consumer_group(described, BROKER).members[0].topics == ("a", "b")


def test_old_broker_lists_neither_state_nor_type() -> None:
    row = ListGroupsResponse.ListedGroup
    new = row(group_id="new", protocol_type="consumer", group_state="Stable", group_type="classic")
    old = row(group_id="old", protocol_type="")
    assert listed_groups(ListGroupsResponse(groups=[new, old]), BROKER) == [
        ListedGroup("new", "consumer", BROKER, "Stable", "classic"),
        ListedGroup("old", "", BROKER, None, None),
    ]
