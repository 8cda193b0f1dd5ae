"""Sticky assignor: loads as even as possible, and then as few moves as possible (KIP-54, KIP-341).

The assignor is eager: members revoke everything before they join. The previous assignment therefore travels in the
subscription's user data, in the bytes of Kafka's own sticky assignor. `balance` and `rack_matching` make the balance.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

import attrs
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData

from sarameya.model import NO_GENERATION, Assignment
from sarameya.protocol.assignors.balance import balanced
from sarameya.protocol.assignors.base import Assignor, Subscription, TopicLayout
from sarameya.protocol.assignors.group_index import NOBODY, GroupIndex
from sarameya.protocol.assignors.rack_matching import rack_matched, worthwhile


@attrs.frozen(slots=True)
class PreviousAssignment:
    """Partitions that a member claims to have had, and the generation in which it got them."""

    partitions: Assignment = attrs.field(factory=dict)
    generation: int = NO_GENERATION


@attrs.frozen(slots=True)
class Balance:
    """Previous and new owner of each partition, in the index's numbers."""

    index: GroupIndex
    homes: list[int]
    owners: list[int]


def balance(
    members: Mapping[str, Subscription],
    topics: Mapping[str, TopicLayout],
    claim: Callable[[Subscription], PreviousAssignment],
) -> Balance:
    """Divide all partitions of the subscribed topics. `claim` reads a member's claim from its subscription."""
    index = GroupIndex(members, topics)
    homes = _homes(index, [claim(members[member]) for member in index.members])
    racks = index.replica_racks(topics)
    owners = rack_matched(index, homes, racks) if worthwhile(index.racks, racks) else balanced(index, homes)
    return Balance(index, homes, owners)


def _homes(index: GroupIndex, claims: list[PreviousAssignment]) -> list[int]:
    """Return the previous owner of each partition.

    Of several claims the one of the highest generation counts; if two have the same, there is no previous owner.
    Partitions that do not exist (any more), and those of topics that the member has dropped, are no claim.
    """
    homes = [NOBODY] * len(index.pool_of)
    generations = [NO_GENERATION - 1] * len(homes)
    for member, claim in enumerate(claims):
        for partition in set(index.wanted(member, claim.partitions)):
            if claim.generation > generations[partition]:
                homes[partition], generations[partition] = member, claim.generation
            elif claim.generation == generations[partition]:
                homes[partition] = NOBODY
    return homes


class StickyAssignor(Assignor):
    """Balance first, then stickiness; racks are used (KIP-881) if that costs no balance.

    With equal subscriptions loads differ by at most one, and no fewer partitions could have been moved. With unequal
    ones no moves of partitions, through however many members, would make the loads more even.
    """

    name = "sticky"

    def __init__(self) -> None:
        self._last: PreviousAssignment | None = None

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        result = balance(members, topics, lambda subscription: decode_previous_assignment(subscription.user_data))
        return result.index.assignments(result.owners)

    def subscription_user_data(self) -> bytes | None:
        return None if self._last is None else encode_previous_assignment(self._last)

    def on_assignment(self, assignment: Assignment, user_data: bytes | None, generation: int) -> None:
        self._last = PreviousAssignment(assignment, generation)


def encode_previous_assignment(claim: PreviousAssignment) -> bytes:
    """Encode user data as Kafka's sticky assignor does (its version 1)."""
    row = StickyAssignorUserData.TopicPartition
    rows = [row(topic=topic, partitions=sorted(numbers)) for topic, numbers in sorted(claim.partitions.items())]
    data = StickyAssignorUserData(previous_assignment=rows, generation=claim.generation)
    # Without a header: these bytes have no version number.
    return bytes(data.encode(version=1, header=False))


def decode_previous_assignment(user_data: bytes | None) -> PreviousAssignment:
    """Decode the claim in user data of either version. Other bytes claim nothing, as in Kafka."""
    for version in (1, 0):
        try:
            data = StickyAssignorUserData.decode(user_data or b"", version=version, header=False)
        except (struct.error, ValueError):
            continue
        partitions = {row.topic: tuple(row.partitions or ()) for row in data.previous_assignment or ()}
        return PreviousAssignment(partitions, data.generation if version else NO_GENERATION)
    return PreviousAssignment()
