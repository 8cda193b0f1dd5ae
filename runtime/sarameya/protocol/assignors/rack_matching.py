"""Rack awareness (KIP-881): assigns partitions to members in a rack of one of their replicas, without loss of balance.

A *mismatch* is a partition whose owner's rack is known, and is not among the known racks of its replicas. Balance comes
first, then few mismatches, then stickiness: a partition moves if that ends its mismatch, and others may move for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from sarameya.protocol.assignors.group_index import NOBODY, GroupIndex
from sarameya.protocol.assignors.partition_moves import MovablePartitions, bits, move_partitions, union
from sarameya.protocol.assignors.sticky_balance import even_owners

_STEPS, _STEPS_A_PARTITION = 200_000, 250
"""Bound for the work of matching, as `MovablePartitions` counts it: about a second for 10,000 partitions.

Only large groups in many racks, with few replicas and hundreds of different subscriptions, reach it.
"""


def worthwhile(member_racks: Iterable[str], replica_racks: Collection[frozenset[str]]) -> bool:
    """Return whether racks should be used, by Kafka's rule: they make a difference for this group.

    They do if some member is in a rack of some replica, and if not every partition has replicas in all racks.
    """
    everywhere = frozenset[str]().union(*replica_racks)
    return not everywhere.isdisjoint(member_racks) and any(racks != everywhere for racks in replica_racks)


def rack_matched(
    index: GroupIndex, previous_owners: Sequence[int], replica_racks: Sequence[frozenset[str]]
) -> list[int]:
    """Return the owner of each partition, as even as `even_owners` makes it and with few mismatches."""
    matching = _Matching(index, replica_racks)
    balanced = best = matching.balanced(previous_owners)
    mismatches = matching.mismatches(best)
    while mismatches:
        found = matching.rearranged(best)
        fewer = matching.mismatches(found)
        # Every later rebalance would repeat moves without a gain. It would also repeat moves whose gain is lost when a
        # cooperative group assigns the moved partitions in its second round.
        kept = [before if before == after else NOBODY for before, after in zip(best, found, strict=True)]
        if fewer >= mismatches or matching.mismatches(matching.balanced(kept)) > fewer:
            break
        best, mismatches = found, fewer
    # Without the moves of an unfinished search: each later rebalance would add some more.
    return balanced if matching.is_exhausted else best


class _Matching:
    """Matching of partitions to racks. Partitions of one pool with replicas in the same racks are of one *kind*."""

    def __init__(self, index: GroupIndex, replica_racks: Sequence[frozenset[str]]) -> None:
        self._index = index
        kinds: dict[tuple[int, frozenset[str]], int] = {}
        self._kind_of = [kinds.setdefault(kind, len(kinds)) for kind in zip(index.pool_of, replica_racks, strict=True)]
        in_rack: dict[str, list[int]] = {}
        for member, rack in enumerate(index.racks):
            in_rack.setdefault(rack, []).append(member)
        of_rack = {rack: bits(members) for rack, members in in_rack.items()}
        near = {racks: union(of_rack.get(rack, 0) for rack in racks | {""}) for racks in {racks for _, racks in kinds}}
        near[frozenset()] = union(of_rack.values())
        self._takers = [index.taker_bits[pool] & near[racks] for pool, racks in kinds]
        self._steps_left: float = _STEPS + _STEPS_A_PARTITION * len(index.pool_of)

    @property
    def is_exhausted(self) -> bool:
        """True if the work has reached its bound."""
        return self._steps_left <= 0

    def mismatches(self, owners: Sequence[int]) -> int:
        """Return the number of mismatches. Partitions without an owner count as well."""
        return sum(not self._fits(partition, owner) for partition, owner in enumerate(owners))

    def _fits(self, partition: int, member: int) -> bool:
        return member != NOBODY and self._takers[self._kind_of[partition]] >> member & 1 == 1

    def balanced(self, previous_owners: Sequence[int]) -> list[int]:
        """Balance the loads, and match the partitions that have to move for that. All others stay."""
        anchors = [owner if self._fits(partition, owner) else NOBODY for partition, owner in enumerate(previous_owners)]
        owners = even_owners(self._index, previous_owners, anchors)
        unmoved = [before == after for before, after in zip(previous_owners, owners, strict=True)]
        partitions = range(len(owners))
        found = self._place(
            owners, anchors, [p for p in partitions if unmoved[p]], [], [p for p in partitions if not unmoved[p]]
        )
        return found if self.mismatches(found) < self.mismatches(owners) else owners

    def rearranged(self, owners: Sequence[int]) -> list[int]:
        """Place partitions with a mismatch again, and move others for them if that helps."""
        fits = [self._fits(partition, owner) for partition, owner in enumerate(owners)]
        partitions = self._index.by_number()
        return self._place(
            owners, owners, [], [p for p in partitions if fits[p]], [p for p in partitions if not fits[p]]
        )

    def _place(
        self,
        owners: Sequence[int],
        anchors: Sequence[int],
        kept: Sequence[int],
        movable: Sequence[int],
        loose: Sequence[int],
    ) -> list[int]:
        """Place partitions again, with few mismatches and the same loads.

        Args:
            owners: Present owner of each partition.
            anchors: Member that should keep each partition.
            kept: Partitions that do not move.
            movable: Partitions that may move to make room for a loose one.
            loose: Partitions to place.

        Returns:
            The new owners; `owners` unchanged if the search took too much work.
        """
        source = len(self._index.members)  # an additional member, which holds the loose partitions
        quotas = _Quotas(self._index, owners)

        def moves(
            pool_of: Sequence[int], owners: Sequence[int], held: Iterable[int], steps: float
        ) -> MovablePartitions:
            state = MovablePartitions(source + 1, pool_of, anchors, steps)
            for partition in kept:
                state.keep(owners[partition])
            for partition in held:
                state.add(owners[partition], partition)
            return state

        # First, place as many as possible without a mismatch.
        half = self._steps_left / 2
        state = moves(self._kind_of, owners, movable, half)
        for partition in reversed(loose):
            state.add(source, partition)
        quotas.fill(state, self._takers, source, rearrange=True)
        self._steps_left += state.steps_left - half

        # The others match no member that can take them. They stay, or go to any taker with room.
        placed = state.owners(owners)
        held = [p for p in (*movable, *loose) if placed[p] != source]
        state = moves(self._index.pool_of, placed, held, self._steps_left)
        spare = quotas.spare(state)
        for partition in loose:
            if placed[partition] == source:
                room = quotas.load(owners[partition]) - state.loads[owners[partition]]
                stays = room > 0 or (room == 0 and spare > 0)
                spare -= stays and room == 0
                state.add(owners[partition] if stays else source, partition)
        quotas.fill(state, self._index.taker_bits, source)
        self._steps_left = state.steps_left
        return list(owners) if self.is_exhausted else state.owners(owners)


class _Quotas:
    """Target loads that keep the balance of `owners`.

    With different subscriptions, each member keeps its load. With equal subscriptions, some members have one partition
    more than the others, and it does not matter which.
    """

    def __init__(self, index: GroupIndex, owners: Sequence[int]) -> None:
        self._extra = 0
        """Number of members that may have one partition more than their load."""
        self._loads: dict[int, int] = Counter(owners)
        if len(index.takers) == 1:
            share, self._extra = divmod(len(owners), len(index.takers[0]))
            self._loads = dict.fromkeys(index.takers[0], share)

    def load(self, member: int) -> int:
        return self._loads[member]

    def spare(self, state: MovablePartitions) -> int:
        """Return the number of members that may still get one more than their load."""
        return self._extra - sum(state.loads[member] > load for member, load in self._loads.items())

    def fill(self, state: MovablePartitions, takers: Sequence[int], source: int, *, rearrange: bool = False) -> None:
        """Move as many partitions of `source` as possible, without overloading any member.

        Args:
            state: Movable partitions and loads.
            takers: Members that may take partitions of each pool, as bit sets.
            source: The member that holds the partitions to place.
            rearrange: Let members with one partition more pass it on, so that other members can have one more.
        """
        self._move(state, takers, {source: state.loads[source]}, 0)
        if rearrange:
            self._move(state, takers, {m: 1 for m, load in self._loads.items() if state.loads[m] > load}, 0)
        self._move(state, takers, {source: min(self.spare(state), state.loads[source])}, 1)

    def _move(self, state: MovablePartitions, takers: Sequence[int], excess: dict[int, int], extra: int) -> None:
        room = {member: load + extra - state.loads[member] for member, load in sorted(self._loads.items())}
        move_partitions(state, takers, excess, room)
