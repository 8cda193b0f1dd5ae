"""Sticky assignor: loads are as even as possible, and then moves are as few as possible (KIP-54, KIP-341).

The assignor is eager: members revoke everything before they join. The previous assignment therefore travels in the
subscription's user data, in the bytes of Kafka's own sticky assignor. `sticky_balance` and `rack_matching` choose the
owners.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

import attrs
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData

from sarameya.model import NO_GENERATION, Assignment
from sarameya.protocol.assignors.base import Assignor, Subscription, TopicLayout
from sarameya.protocol.assignors.group_index import NOBODY, GroupIndex
from sarameya.protocol.assignors.rack_matching import rack_matched, worthwhile
from sarameya.protocol.assignors.sticky_balance import even_owners


@attrs.frozen(slots=True)
class PreviousAssignment:
    """Partitions that a member reports as its previous ones, and the generation in which it got them."""

    partitions: Assignment = attrs.field(factory=dict)
    generation: int = NO_GENERATION


@attrs.frozen(slots=True)
class StickyOwners:
    """Previous and new owner of each partition. `index` numbers the partitions and the members."""

    index: GroupIndex
    previous_owners: list[int]
    owners: list[int]


def assign_sticky(
    members: Mapping[str, Subscription],
    topics: Mapping[str, TopicLayout],
    previous_of: Callable[[Subscription], PreviousAssignment],
) -> StickyOwners:
    """Assign all partitions of the subscribed topics.

    Args:
        members: Subscriptions by member id.
        topics: Layouts of the topics that exist.
        previous_of: Reads a member's previous assignment from its subscription.
    """
    index = GroupIndex(members, topics)
    previous_owners = _previous_owners(index, [previous_of(members[member]) for member in index.members])
    racks = index.replica_racks(topics)
    if worthwhile(index.racks, racks):
        owners = rack_matched(index, previous_owners, racks)
    else:
        owners = even_owners(index, previous_owners)
    return StickyOwners(index, previous_owners, owners)


def _previous_owners(index: GroupIndex, previous: list[PreviousAssignment]) -> list[int]:
    """Return the previous owner of each partition, given the previous assignment that each member reports.

    If several members report a partition, the member with the highest generation is its previous owner; if two have
    that generation, nobody is. Partitions that do not exist, and topics that the member no longer subscribes to, are
    ignored.
    """
    owners = [NOBODY] * len(index.pool_of)
    generations = [NO_GENERATION - 1] * len(owners)
    for member, reported in enumerate(previous):
        for partition in set(index.wanted(member, reported.partitions)):
            if reported.generation > generations[partition]:
                owners[partition], generations[partition] = member, reported.generation
            elif reported.generation == generations[partition]:
                owners[partition] = NOBODY
    return owners


class StickyAssignor(Assignor):
    """Balance first, then stickiness; racks are used (KIP-881) if that costs no balance.

    With equal subscriptions, loads differ by at most one, and the number of moved partitions is the smallest possible.
    With unequal subscriptions, no further moves, through any number of members, would make loads more even.
    """

    name = "sticky"

    def __init__(self) -> None:
        self._last: PreviousAssignment | None = None

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        result = assign_sticky(members, topics, lambda subscription: decode_previous_assignment(subscription.user_data))
        return result.index.assignments(result.owners)

    def subscription_user_data(self) -> bytes | None:
        return None if self._last is None else encode_previous_assignment(self._last)

    def on_assignment(self, assignment: Assignment, user_data: bytes | None, generation: int) -> None:
        self._last = PreviousAssignment(assignment, generation)


def encode_previous_assignment(previous: PreviousAssignment) -> bytes:
    """Encode user data as Kafka's sticky assignor does (its version 1)."""
    row = StickyAssignorUserData.TopicPartition
    rows = [row(topic=topic, partitions=sorted(numbers)) for topic, numbers in sorted(previous.partitions.items())]
    data = StickyAssignorUserData(previous_assignment=rows, generation=previous.generation)
    # Without a header: these bytes have no version number.
    return bytes(data.encode(version=1, header=False))


def decode_previous_assignment(user_data: bytes | None) -> PreviousAssignment:
    """Decode user data of either version. Other bytes are an empty previous assignment, as in Kafka."""
    for version in (1, 0):
        try:
            data = StickyAssignorUserData.decode(user_data or b"", version=version, header=False)
        except (struct.error, ValueError):
            continue
        partitions = {row.topic: tuple(row.partitions or ()) for row in data.previous_assignment or ()}
        return PreviousAssignment(partitions, data.generation if version else NO_GENERATION)
    return PreviousAssignment()
