"""Base class of assignors, which divide the partitions among the members. Pure; runs on the group's leader.

The group's leader assigns, not the broker, so that applications can choose the assignment. The base class is therefore
public. `protocol.rebalance` encodes subscriptions and assignments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import ClassVar

import attrs

from sarameya.model import NO_GENERATION, Assignment


class RebalanceProtocol(Enum):
    """Treatment of owned partitions when the group rebalances (KIP-429)."""

    EAGER = auto()
    """Each member revokes all partitions before it joins."""
    COOPERATIVE = auto()
    """Members keep what they own; only partitions that move are revoked, in a second rebalance."""


@attrs.frozen(slots=True)
class Subscription:
    """A member's subscription: its topics and, for assignors that need it, its owned partitions and its rack."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    """The assignor's own bytes, from `Assignor.subscription_user_data`."""
    owned_partitions: Assignment = attrs.field(factory=dict)
    """Partitions assigned in `generation_id` and not revoked since; empty under an eager assignor."""
    generation_id: int = NO_GENERATION
    rack_id: str = ""
    group_instance_id: str | None = None
    """Instance id of a static member (KIP-345), sent in a field of JoinGroup outside of the subscription."""


@attrs.frozen(slots=True)
class TopicLayout:
    """Partitions of a topic, and the racks of their replicas, as assignors see them."""

    partitions: int
    racks: Mapping[int, frozenset[str]] = attrs.field(factory=dict)
    """Partition -> the racks of its replicas, as far as brokers report racks (KIP-881). No entry: unknown."""

    def replica_racks(self) -> list[frozenset[str]]:
        """Return the racks of partition 0, 1, ...; empty if unknown."""
        unknown: frozenset[str] = frozenset()
        return [self.racks.get(number, unknown) for number in range(self.partitions)]


class Assignor(ABC):
    """Base class for dividing the partitions of the subscribed topics among a group's members.

    `assign` may be slow: it runs in a worker thread, and must not touch state that other threads use.
    """

    name: ClassVar[str]
    """Name in the group protocol. Members of a group can agree only on assignors of the same name."""
    protocols: ClassVar[frozenset[RebalanceProtocol]] = frozenset({RebalanceProtocol.EAGER})
    """Rebalance protocols that this assignor's results are valid for."""

    @abstractmethod
    def assign(
        self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]
    ) -> Mapping[str, Assignment]:
        """Return the partitions of each member; an absent member gets none.

        A subscribed topic that is absent from `topics` does not exist (yet): leave it out. Assign each partition to at
        most one member, which must subscribe to its topic. Under a cooperative assignor, do not assign a partition to a
        member while another member owns it. Any violation raises AssignorError, and no member gets an assignment. The
        result must depend on the arguments alone, not on their order, so that any leader computes the same result.

        Args:
            members: Subscription of each member, by member id.
            topics: Partitions and racks of each existing topic, by name.
        """

    def subscription_user_data(self) -> bytes | None:
        """Return bytes to add to this member's subscription, for the leader's `assign` to read."""
        return None

    def assignment_user_data(self, member_id: str, assignment: Assignment) -> bytes | None:
        """Return bytes to send with `assignment` to that member, for its `on_assignment` to read.

        Called after `assign`, once for each member of its result, in the same thread. The leader may append bytes for
        other Sarameya members. They are removed before `on_assignment`, but members with other clients see them.
        """
        return None

    def on_assignment(self, assignment: Assignment, user_data: bytes | None, generation: int) -> None:
        """Receive this member's assignment. Runs in the event loop, so it must not be slow.

        Args:
            assignment: This member's partitions.
            user_data: Bytes that the leader sent with it.
            generation: Generation of the assignment.
        """


def in_order(members: Mapping[str, Subscription]) -> list[str]:
    """Return member ids as Kafka's assignors sort them: static members by instance id, then the others by member id.

    A static member keeps its place, and so its partitions, when it restarts under a new member id.
    """

    def rank(member_id: str) -> tuple[bool, str, str]:
        instance = members[member_id].group_instance_id
        return (instance is None, instance or "", member_id)

    return sorted(members, key=rank)


def subscribed_topics(members: Iterable[Subscription], topics: Mapping[str, TopicLayout]) -> list[str]:
    """Return the existing topics that at least one member subscribes to, sorted by name."""
    return sorted({topic for member in members for topic in member.topics if topic in topics})
