"""Rack awareness (KIP-881): assigns partitions to members in a rack of one of their replicas, without loss of balance.

A *mismatch* is a partition with known replica racks whose owner's rack is known and none of them. Balance comes first,
then few mismatches, then stickiness: a partition with a mismatch may move to end it, and others may move for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from sarameya.protocol.assignors.group_index import NOBODY, GroupIndex
from sarameya.protocol.assignors.partition_moves import MovablePartitions, bits, move_partitions, union
from sarameya.protocol.assignors.sticky_balance import even_owners

_STEPS, _STEPS_A_PARTITION = 200_000, 250
"""Bound for the work of matching, as `MovablePartitions` counts it: about a second for 10,000 partitions.

Hardly any group needs all of it: only large ones in many racks, with few replicas and hundreds of different
subscriptions.
"""


def worthwhile(member_racks: Iterable[str], replica_racks: Collection[frozenset[str]]) -> bool:
    """Return whether racks matter (Kafka's rule).

    They do if some member could match, and not every partition is in every rack.
    """
    everywhere = frozenset[str]().union(*replica_racks)
    return not everywhere.isdisjoint(member_racks) and any(racks != everywhere for racks in replica_racks)


def rack_matched(
    index: GroupIndex, previous_owners: Sequence[int], replica_racks: Sequence[frozenset[str]]
) -> list[int]:
    """Return the owner of each partition, as even as `even_owners` makes it and with few mismatches."""
    matching = _Matching(index, replica_racks)
    renewed = best = matching.renewed(previous_owners)
    mismatches = matching.mismatches(best)
    while mismatches:
        found = matching.rearranged(best)
        fewer = matching.mismatches(found)
        # A move without a gain would be repeated in every round, and so would one whose gain is lost when the next
        # round assigns the moved partitions.
        kept = [before if before == after else NOBODY for before, after in zip(best, found, strict=True)]
        if fewer >= mismatches or matching.mismatches(matching.renewed(kept)) > fewer:
            break
        best, mismatches = found, fewer
    # A part of the moves is worse than none: the next round would make some more, and so on.
    return renewed if matching.is_exhausted else best


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
        """True if the work has reached its bound, so that no more is tried."""
        return self._steps_left <= 0

    def mismatches(self, owners: Sequence[int]) -> int:
        return sum(not self._fits(partition, owner) for partition, owner in enumerate(owners))

    def _fits(self, partition: int, member: int) -> bool:
        return member != NOBODY and self._takers[self._kind_of[partition]] >> member & 1 == 1

    def renewed(self, previous_owners: Sequence[int]) -> list[int]:
        """Balance, and match those partitions that the balance moves; the others stay."""
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
        """Return `owners` with the `loose` partitions placed again; `movable` ones may move for them.

        Returns `owners` unchanged if that turns out to be too much work.
        """
        nobody = len(self._index.members)
        quotas = _Quotas(self._index, owners)

        def in_hand(
            pool_of: Sequence[int], owners: Sequence[int], held: Iterable[int], steps: float
        ) -> MovablePartitions:
            hands = MovablePartitions(nobody + 1, pool_of, anchors, steps)
            for partition in kept:
                hands.keep(owners[partition])
            for partition in held:
                hands.add(owners[partition], partition)
            return hands

        half = self._steps_left / 2
        hands = in_hand(self._kind_of, owners, movable, half)
        for partition in reversed(loose):
            hands.add(nobody, partition)
        quotas.fill(hands, self._takers, nobody, rearrange=True)
        self._steps_left += hands.steps_left - half

        # Partitions that are still loose match nowhere: they stay, or go wherever there is room.
        placed = hands.owners(owners)
        held = [p for p in (*movable, *loose) if placed[p] != nobody]
        hands = in_hand(self._index.pool_of, placed, held, self._steps_left)
        spare = quotas.spare(hands)
        for partition in loose:
            if placed[partition] == nobody:
                room = quotas.load(owners[partition]) - hands.loads[owners[partition]]
                stays = room > 0 or (room == 0 and spare > 0)
                spare -= stays and room == 0
                hands.add(owners[partition] if stays else nobody, partition)
        quotas.fill(hands, self._index.taker_bits, nobody)
        self._steps_left = hands.steps_left
        return list(owners) if self.is_exhausted else hands.owners(owners)


class _Quotas:
    """Loads that keep a balance as it is: each member's, and the number of members that may have one more."""

    def __init__(self, index: GroupIndex, owners: Sequence[int]) -> None:
        self._more = 0
        self._loads: dict[int, int] = Counter(owners)
        if len(index.takers) == 1:
            share, self._more = divmod(len(owners), len(index.takers[0]))
            self._loads = dict.fromkeys(index.takers[0], share)

    def load(self, member: int) -> int:
        return self._loads[member]

    def spare(self, hands: MovablePartitions) -> int:
        """Return the number of members that may still get one more than their load."""
        return self._more - sum(hands.loads[member] > load for member, load in self._loads.items())

    def fill(self, hands: MovablePartitions, takers: Sequence[int], source: int, *, rearrange: bool = False) -> None:
        """Move as much as possible of the partitions of `source`, without overloading anybody.

        With `rearrange`, members that have one more pass it on where that is possible, so that others can have one
        more.
        """
        self._bring(hands, takers, {source: hands.loads[source]}, 0)
        if rearrange:
            self._bring(hands, takers, {m: 1 for m, load in self._loads.items() if hands.loads[m] > load}, 0)
        self._bring(hands, takers, {source: min(self.spare(hands), hands.loads[source])}, 1)

    def _bring(self, hands: MovablePartitions, takers: Sequence[int], excess: dict[int, int], more: int) -> None:
        room = {member: load + more - hands.loads[member] for member, load in sorted(self._loads.items())}
        move_partitions(hands, takers, excess, room)
