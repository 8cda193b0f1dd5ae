"""What an assignor is: given who subscribes to what, it says who reads what. Pure; runs on the group's leader.

The leader assigns, not the broker, because how partitions are dealt is the application's choice; so this is
a public base class. What travels on the wire is the matter of `protocol.rebalance`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import ClassVar

import attrs

from sarameya.model import NO_GENERATION, Assignment


class RebalanceProtocol(Enum):
    """What members do with their partitions when the group rebalances (KIP-429)."""

    EAGER = auto()
    """Every member gives up everything before it joins."""
    COOPERATIVE = auto()
    """Members keep what they own; only what moves is given up, in a second round."""


@attrs.frozen(slots=True)
class Subscription:
    """What one member tells the leader: its topics and, for assignors that care, what it owns and where it runs."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    """The assignor's own, from `Assignor.subscription_user_data`."""
    owned_partitions: Assignment = attrs.field(factory=dict)
    """What the member owned in `generation_id` and has not given up; empty under an eager assignor."""
    generation_id: int = NO_GENERATION
    rack_id: str = ""
    group_instance_id: str | None = None
    """Set for a static member (KIP-345). Travels beside the subscription, not in it."""


@attrs.frozen(slots=True)
class TopicLayout:
    """What an assignor may know of a topic: how many partitions it has, and where their replicas are."""

    partitions: int
    racks: Mapping[int, frozenset[str]] = attrs.field(factory=dict)
    """Partition -> the racks its replicas are in, as far as the cluster tells (KIP-881); without an entry: unknown."""

    def replica_racks(self) -> list[frozenset[str]]:
        """The racks of partition 0, 1, ...; empty where unknown."""
        unknown: frozenset[str] = frozenset()
        return [self.racks.get(number, unknown) for number in range(self.partitions)]


class Assignor(ABC):
    """Divides the partitions of the subscribed topics among a group's members.

    `assign` may be slow: it is run in a worker thread, and must not touch what other threads use.
    """

    name: ClassVar[str]
    """As the group knows it; members of one group can only agree on assignors of the same name."""
    protocols: ClassVar[frozenset[RebalanceProtocol]] = frozenset({RebalanceProtocol.EAGER})
    """The rebalance protocols this assignor's results are fit for."""

    @abstractmethod
    def assign(
        self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]
    ) -> Mapping[str, Assignment]:
        """Member id -> its partitions; who is left out gets nothing.

        A subscribed topic that is not in `topics` does not exist (yet) and is left out. A partition goes to one member
        at most, which subscribes to its topic; under a cooperative assignor not to one while another owns it. Anything
        else is an AssignorError, and is given to nobody. The result depends on the arguments alone, not on their
        order, so that whichever member leads decides alike.
        """

    def subscription_user_data(self) -> bytes | None:
        """What this member adds to its subscription, for the leader's `assign` to read."""
        return None

    def assignment_user_data(self, member_id: str, assignment: Assignment) -> bytes | None:
        """What the leader sends along with `assignment` to that member, for its `on_assignment` to read.

        Asked for after `assign`, once for each member of its result, in the same thread. Where the leader has
        something to add for its like, that stands behind these bytes, and is taken off before `on_assignment`; other
        clients' members see it.
        """
        return None

    def on_assignment(self, assignment: Assignment, user_data: bytes | None, generation: int) -> None:
        """This member has got `assignment` in `generation`; `user_data` is what the leader sent with it.

        Called in the event loop, so it must not be slow.
        """


def in_order(members: Mapping[str, Subscription]) -> list[str]:
    """Member ids as Kafka's assignors sort them: static members by instance id, then the others by member id.

    A static member keeps its place, and so its partitions, when it restarts under a new member id.
    """

    def rank(member_id: str) -> tuple[bool, str, str]:
        instance = members[member_id].group_instance_id
        return (instance is None, instance or "", member_id)

    return sorted(members, key=rank)


def subscribed_topics(members: Iterable[Subscription], topics: Mapping[str, TopicLayout]) -> list[str]:
    """The topics that exist and that somebody subscribes to, by name."""
    return sorted({topic for member in members for topic in member.topics if topic in topics})
