"""Groups as their coordinators list and describe them, decoded: what members and leader have written included. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from sarameya.errors import ProtocolError, SarameyaError
from sarameya.model import Assignment
from sarameya.protocol.metadata import Broker
from sarameya.protocol.rebalance import PROTOCOL_TYPE, decode_assignment, decode_subscription

EMPTY, STABLE, DEAD = "Empty", "Stable", "Dead"
"""States as brokers name them: of a group without members, of one at work, and of one that does not exist."""

CLASSIC, BROKER_LED = "classic", "consumer"
"""The types of group that can be described: a member assigns, or the broker does (KIP-848). Kafka has others."""


@attrs.frozen(slots=True)
class ListedGroup:
    """A group as its coordinator lists it. `state` and `type` are None where an old broker tells none."""

    group: str
    protocol_type: str
    coordinator: Broker
    state: str | None
    type: str | None


@attrs.frozen(slots=True)
class Listing:
    """The groups of all brokers that answered, by name, and what the others failed with."""

    groups: tuple[ListedGroup, ...]
    failures: tuple[tuple[Broker, SarameyaError], ...] = ()


@attrs.frozen(slots=True)
class DescribedMember:
    """One member. `assignment` is None where it cannot be told: `problem` says why."""

    member_id: str
    client_id: str
    host: str
    """As the broker tells it: Kafka puts a slash before an address without a name."""
    group_instance_id: str | None = None
    topics: tuple[str, ...] = ()
    """What it subscribes to, where that is told."""
    assignment: Assignment | None = None
    problem: str = ""


@attrs.frozen(slots=True)
class DescribedGroup:
    """A group as its coordinator describes it; `state` is DEAD for one that does not exist.

    `type` is CLASSIC or BROKER_LED, or what Kafka calls another kind of group, of which its state alone is known.
    `assignor` is empty while none is chosen.
    """

    group: str
    state: str
    coordinator: Broker
    type: str = CLASSIC
    protocol_type: str = ""
    assignor: str = ""
    members: tuple[DescribedMember, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether it has members, or is about to: its offsets are theirs to commit, then."""
        return self.state not in (EMPTY, DEAD)


def listed_groups(answer: Any, broker: Broker) -> list[ListedGroup]:
    """What a broker has answered to ListGroups."""
    return [
        ListedGroup(g.group_id, g.protocol_type, broker, g.group_state or None, g.group_type or None)
        for g in answer.groups
    ]


def classic_group(described: Any, coordinator: Broker) -> DescribedGroup:
    """One group of an answer to DescribeGroups."""
    protocol_type, state = described.protocol_type, described.group_state
    members = _in_order(_classic_member(member, protocol_type, state) for member in described.members)
    assignor = described.protocol_data
    return DescribedGroup(described.group_id, state, coordinator, CLASSIC, protocol_type, assignor, members)


def broker_led_group(described: Any, coordinator: Broker) -> DescribedGroup:
    """One group of an answer to ConsumerGroupDescribe (KIP-848)."""
    members = _in_order(_broker_led_member(member) for member in described.members)
    state, assignor = described.group_state, described.assignor_name
    return DescribedGroup(described.group_id, state, coordinator, BROKER_LED, PROTOCOL_TYPE, assignor, members)


def _in_order(members: Iterable[DescribedMember]) -> tuple[DescribedMember, ...]:
    return tuple(sorted(members, key=lambda member: (member.client_id, member.member_id)))


def _classic_member(member: Any, protocol_type: str, state: str) -> DescribedMember:
    """A member with what it and the leader have written, if that can be read; of stable groups only it is told."""
    known = DescribedMember(member.member_id, member.client_id, member.client_host, member.group_instance_id)
    if protocol_type != PROTOCOL_TYPE:
        return attrs.evolve(known, problem=f"not decoded: the group's protocol is {protocol_type!r}")
    if state != STABLE:
        return attrs.evolve(known, problem="not told while the group rebalances")
    try:
        topics = decode_subscription(member.member_metadata).topics
        assignment, _ = decode_assignment(member.member_assignment)
    except ProtocolError as error:
        return attrs.evolve(known, problem=str(error))
    return attrs.evolve(known, topics=tuple(sorted(topics)), assignment=assignment)


def _broker_led_member(member: Any) -> DescribedMember:
    assigned = {row.topic_name: tuple(sorted(row.partitions)) for row in member.assignment.topic_partitions or ()}
    # A pattern is matched by the broker, and only what came of it is told.
    topics = {*member.subscribed_topic_names, *assigned}
    return DescribedMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        group_instance_id=member.instance_id,
        topics=tuple(sorted(topics)),
        assignment=dict(sorted(assigned.items())),
    )
