"""Rack awareness (KIP-881): partitions to members in a rack of one of their replicas, where the balance stays as it is.

A *mismatch* is a partition whose replicas' racks are known, with a member whose rack is known and is none of them.
Balance comes first, then few mismatches, then everybody's keeping what it had: a partition with a mismatch may
move to end it, and others may change hands on the way. Where subscriptions differ, only partitions that are moving
anyway are matched: nothing is taken from its home for its rack's sake, so that one round follows another to an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from sarameya.protocol.assignors.handing_on import Hands, hand_on
from sarameya.protocol.assignors.roster import Roster


def worthwhile(member_racks: Iterable[str], replica_racks: Collection[frozenset[str]]) -> bool:
    """Kafka's rule for heeding racks at all: some member could match, and not every partition is in every rack."""
    everywhere = frozenset[str]().union(*replica_racks)
    return not everywhere.isdisjoint(member_racks) and any(racks != everywhere for racks in replica_racks)


def rack_matched(
    roster: Roster, owners: list[int], homes: Sequence[int], replica_racks: Sequence[frozenset[str]]
) -> list[int]:
    """`owners`, which must be balanced, with fewer mismatches, if that can be had without loss of balance."""
    if not worthwhile(roster.racks, replica_racks):
        return owners
    matching = _Matching(roster, homes, replica_racks)
    best, mismatches = owners, matching.mismatches(owners)
    for rearrange in (matching.newcomers, matching.everything):
        if mismatches:
            found = rearrange(owners)
            # Only for fewer: what is no better would move partitions for nothing, round after round.
            if (fewer := matching.mismatches(found)) < mismatches:
                best, mismatches = found, fewer
    return best


class _Matching:
    """Rearranges balanced assignments. Partitions of one pool with replicas in the same racks are of one *kind*."""

    def __init__(self, roster: Roster, homes: Sequence[int], replica_racks: Sequence[frozenset[str]]) -> None:
        self._roster = roster
        self._homes = homes
        kinds: dict[tuple[int, frozenset[str]], int] = {}
        self._kind_of = [kinds.setdefault(kind, len(kinds)) for kind in zip(roster.pool_of, replica_racks, strict=True)]
        self._takers = [
            [member for member in roster.takers[pool] if not racks or roster.racks[member] in racks | {""}]
            for pool, racks in kinds
        ]
        self._fit = [frozenset(members) for members in self._takers]

    def mismatches(self, owners: Sequence[int]) -> int:
        return sum(not self._fits(partition, owner) for partition, owner in enumerate(owners))

    def _fits(self, partition: int, member: int) -> bool:
        return member in self._fit[self._kind_of[partition]]

    def newcomers(self, owners: Sequence[int]) -> list[int]:
        """Partitions that are not where they were, placed anew; the others stay."""
        here = [home == owner for home, owner in zip(self._homes, owners, strict=True)]
        partitions = range(len(owners))
        return self._place(owners, [p for p in partitions if here[p]], [], [p for p in partitions if not here[p]])

    def everything(self, owners: Sequence[int]) -> list[int]:
        """Mismatched partitions placed anew, and others moved for it where that helps."""
        if len(self._roster.takers) > 1:
            return list(owners)
        fits = [self._fits(partition, owner) for partition, owner in enumerate(owners)]
        partitions = self._roster.by_number()
        return self._place(owners, [], [p for p in partitions if fits[p]], [p for p in partitions if not fits[p]])

    def _place(self, owners: Sequence[int], kept: list[int], movable: list[int], loose: list[int]) -> list[int]:
        """`owners`, with what is `loose` placed anew, for which what is `movable` may change hands."""
        nobody = len(self._roster.members)
        quotas = _Quotas(self._roster, owners)
        hands = self._hands(self._kind_of, owners, kept, movable)
        for partition in reversed(loose):
            hands.add(nobody, partition)
        quotas.fill(hands, self._takers, nobody)

        # What is loose still matches nowhere: it stays where it was, or goes wherever there is room.
        placed = hands.owners(owners)
        held = [partition for partition in (*movable, *loose) if placed[partition] != nobody]
        hands = self._hands(self._roster.pool_of, placed, kept, held)
        spare = quotas.spare(hands)
        for partition in loose:
            if placed[partition] == nobody:
                room = quotas.load(owners[partition]) - hands.loads[owners[partition]]
                stays = room > 0 or (room == 0 and spare > 0)
                spare -= stays and room == 0
                hands.add(owners[partition] if stays else nobody, partition)
        quotas.fill(hands, self._roster.takers, nobody)
        return hands.owners(owners)

    def _hands(self, pool_of: Sequence[int], owners: Sequence[int], kept: list[int], held: list[int]) -> Hands:
        hands = Hands(len(self._roster.members) + 1, pool_of, self._homes)
        for partition in kept:
            hands.keep(owners[partition])
        for partition in held:
            hands.add(owners[partition], partition)
        return hands


class _Quotas:
    """The loads that keep a balance what it is: each member's, and how many members may have one more."""

    def __init__(self, roster: Roster, owners: Sequence[int]) -> None:
        self._more = 0
        self._loads: dict[int, int] = Counter(owners)
        if len(roster.takers) == 1:
            share, self._more = divmod(len(owners), len(roster.takers[0]))
            self._loads = dict.fromkeys(roster.takers[0], share)

    def fill(self, hands: Hands, takers: Sequence[Sequence[int]], source: int) -> None:
        """Hand on as much as possible of what `source` holds, without anybody's getting too much."""
        for more in (0, 1):
            limit = self.spare(hands) if more else hands.loads[source]
            room = {member: load + more - hands.loads[member] for member, load in sorted(self._loads.items())}
            hand_on(hands, takers, {source: min(limit, hands.loads[source])}, room)

    def load(self, member: int) -> int:
        return self._loads[member]

    def spare(self, hands: Hands) -> int:
        """How many members may still be given one more than their load."""
        return self._more - sum(hands.loads[member] > load for member, load in self._loads.items())
