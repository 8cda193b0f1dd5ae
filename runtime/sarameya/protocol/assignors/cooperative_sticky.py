"""Cooperative sticky assignor (KIP-429): the sticky assignor, for members that keep their partitions in a rebalance.

Members report their owned partitions in their subscription (`owned_partitions`, KIP-792). A partition that moves to
another member takes two rounds. The first round assigns it to nobody, so its owner revokes it and joins again. The
second round assigns it to the new owner.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from sarameya.model import NO_GENERATION, Assignment
from sarameya.protocol.assignors.base import Assignor, RebalanceProtocol, Subscription, TopicLayout
from sarameya.protocol.assignors.group_index import NOBODY
from sarameya.protocol.assignors.sticky import (
    PreviousAssignment,
    StickyOwners,
    assign_sticky,
    decode_previous_assignment,
)

_GENERATION = struct.Struct(">i")


class CooperativeStickyAssignor(Assignor):
    """Like `StickyAssignor`, but a partition that moves between two members is assigned in the next round."""

    name = "cooperative-sticky"
    protocols = frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER})

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        result = assign_sticky(members, topics, _previous_assignment)
        _withhold_moving_partitions(result, members)
        return result.index.assignments(result.owners)

    def subscription_user_data(self) -> bytes:
        """Return the generation, for leaders from before KIP-792, which do not read `generation_id`."""
        return _GENERATION.pack(self._generation)

    def on_assignment(self, assignment: Assignment, user_data: bytes | None, generation: int) -> None:
        self._generation = generation


def _withhold_moving_partitions(result: StickyOwners, members: Mapping[str, Subscription]) -> None:
    """Assign a partition to nobody if its owner changes and any member reports that it owns the partition.

    That member may differ from the previous owner in `result`, which is computed without members that no longer
    subscribe to the topic and without claims from older generations.
    """
    for subscription in members.values():
        for topic, numbers in subscription.owned_partitions.items():
            for partition in (result.index.partition(topic, number) for number in numbers):
                if partition is not None and result.owners[partition] != result.previous_owners[partition]:
                    result.owners[partition] = NOBODY


def _previous_assignment(subscription: Subscription) -> PreviousAssignment:
    return PreviousAssignment(subscription.owned_partitions, _generation(subscription))


def _generation(subscription: Subscription) -> int:
    """Return the generation in which the member got its owned partitions.

    Members from before KIP-792 send it in their user data. The Java client sends only the number. Other clients send it
    after a previous assignment, as the eager sticky assignor does.
    """
    user_data = subscription.user_data
    if subscription.generation_id != NO_GENERATION or not user_data:
        return subscription.generation_id
    if len(user_data) == _GENERATION.size:
        return int(_GENERATION.unpack(user_data)[0])
    return decode_previous_assignment(user_data).generation
