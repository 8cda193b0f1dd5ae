"""Groups as their coordinators list and describe them, with decoded subscriptions and assignments. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from sarameya.errors import ProtocolError, SarameyaError
from sarameya.model import Assignment
from sarameya.protocol.cluster.metadata import Broker
from sarameya.protocol.rebalance import PROTOCOL_TYPE, decode_assignment, decode_subscription

EMPTY, STABLE, DEAD = "Empty", "Stable", "Dead"
"""States, as brokers name them: no members, no rebalance in progress, no such group."""

CLASSIC, CONSUMER = "classic", "consumer"
"""Types of group that can be described: a member assigns, or the broker does (KIP-848). Kafka has other types."""


@attrs.frozen(slots=True)
class ListedGroup:
    """Group as its coordinator lists it. `state` and `type` are None if the broker is too old to report them."""

    group: str
    protocol_type: str
    coordinator: Broker
    state: str | None
    type: str | None


@attrs.frozen(slots=True)
class Listing:
    """Groups of all brokers that answered, sorted by name, and the failures of the other brokers."""

    groups: tuple[ListedGroup, ...]
    failures: tuple[tuple[Broker, SarameyaError], ...] = ()


@attrs.frozen(slots=True)
class DescribedMember:
    """Member of a described group. If `assignment` is None, it is not known, and `problem` has the reason."""

    member_id: str
    client_id: str
    host: str
    """Host as the broker reports it. Kafka puts a slash before an address without a name."""
    group_instance_id: str | None = None
    topics: tuple[str, ...] = ()
    """Subscribed topics, if they are known."""
    assignment: Assignment | None = None
    problem: str = ""


@attrs.frozen(slots=True)
class DescribedGroup:
    """Group as its coordinator describes it. `state` is DEAD for a group that does not exist.

    `type` is CLASSIC or CONSUMER, or Kafka's name of another type of group. Of such a group only the state is known.
    `assignor` is empty until the group has chosen an assignor.
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
        """True if the group has members, or is about to have some. Only members may commit its offsets then."""
        return self.state not in (EMPTY, DEAD)


def listed_groups(answer: Any, broker: Broker) -> list[ListedGroup]:
    """Convert a broker's response to ListGroups."""
    return [
        ListedGroup(g.group_id, g.protocol_type, broker, g.group_state or None, g.group_type or None)
        for g in answer.groups
    ]


def classic_group(described: Any, coordinator: Broker) -> DescribedGroup:
    """Convert one group of a response to DescribeGroups."""
    protocol_type, state = described.protocol_type, described.group_state
    members = _in_order(_classic_member(member, protocol_type, state) for member in described.members)
    assignor = described.protocol_data
    return DescribedGroup(described.group_id, state, coordinator, CLASSIC, protocol_type, assignor, members)


def consumer_group(described: Any, coordinator: Broker) -> DescribedGroup:
    """Convert one group of a response to ConsumerGroupDescribe (KIP-848)."""
    members = _in_order(_consumer_member(member) for member in described.members)
    state, assignor = described.group_state, described.assignor_name
    return DescribedGroup(described.group_id, state, coordinator, CONSUMER, PROTOCOL_TYPE, assignor, members)


def _in_order(members: Iterable[DescribedMember]) -> tuple[DescribedMember, ...]:
    return tuple(sorted(members, key=lambda member: (member.client_id, member.member_id)))


def _classic_member(member: Any, protocol_type: str, state: str) -> DescribedMember:
    """Convert a member, with its subscription and assignment if they can be decoded.

    Brokers send them for stable groups only.
    """
    known = DescribedMember(member.member_id, member.client_id, member.client_host, member.group_instance_id)
    if protocol_type != PROTOCOL_TYPE:
        return attrs.evolve(known, problem=f"not decoded: the group's protocol is {protocol_type!r}")
    if state != STABLE:
        return attrs.evolve(known, problem="not known while the group rebalances")
    try:
        topics = decode_subscription(member.member_metadata).topics
        assignment, _ = decode_assignment(member.member_assignment)
    except ProtocolError as error:
        return attrs.evolve(known, problem=str(error))
    return attrs.evolve(known, topics=tuple(sorted(topics)), assignment=assignment)


def _consumer_member(member: Any) -> DescribedMember:
    assigned = {row.topic_name: tuple(sorted(row.partitions)) for row in member.assignment.topic_partitions or ()}
    # The broker matches patterns itself and reports only the assigned topics.
    topics = {*member.subscribed_topic_names, *assigned}
    return DescribedMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        group_instance_id=member.instance_id,
        topics=tuple(sorted(topics)),
        assignment=dict(sorted(assigned.items())),
    )
