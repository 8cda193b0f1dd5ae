"""Handing partitions on: from who has too many to who has room, through as few hands as possible.

Where subscriptions differ, a member with too much may share no topic with the one that has room; a third may take
from the first what it needs, and give the other something else. That is a flow over members and pools. It is sent in
rounds of shortest paths (Dinic's algorithm), which is fast, and moves few partitions. Knows nothing of why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

Takers = Mapping[int, AbstractSet[int]] | Sequence[AbstractSet[int]]
"""Pool -> the members that may take its partitions."""


class Hands:
    """Which partitions each member holds and may hand on, and its load: these and those that it keeps for good."""

    def __init__(self, members: int, pool_of: Sequence[int], anchors: Sequence[int]) -> None:
        self.pool_of = pool_of
        self.loads = [0] * members
        self._anchors = anchors
        # Pool -> partitions in hand, the last to be handed on first: what came from elsewhere before what is at home.
        self.held: list[dict[int, list[int]]] = [{} for _ in range(members)]

    def keep(self, member: int) -> None:
        """The member has one more partition that is not to be handed on."""
        self.loads[member] += 1

    def release(self, member: int, partition: int) -> None:
        """What the member keeps at home may be handed on from now on; of several, the last released is the first."""
        self._hold(member, partition, self.pool_of[partition])

    def add(self, member: int, partition: int) -> None:
        self.loads[member] += 1
        self._hold(member, partition, self.pool_of[partition])

    def owners(self, kept: Sequence[int]) -> list[int]:
        """Partition -> who has it, where `kept` tells that of those which are in nobody's hands."""
        found = list(kept)
        for member, stacks in enumerate(self.held):
            for stack in stacks.values():
                for partition in stack:
                    found[partition] = member
        return found

    def _hold(self, member: int, partition: int, pool: int) -> None:
        stack = self.held[member].setdefault(pool, [])
        if self._anchors[partition] == member:
            at = len(stack)
            while at and self._anchors[stack[at - 1]] != member:
                at -= 1
            stack.insert(at, partition)
        else:
            stack.append(partition)

    def give(self, giver: int, pool: int, taker: int) -> None:
        """Hand on that partition of the pool which the giver can best do without."""
        partition = self.held[giver][pool].pop()
        self.loads[giver] -= 1
        self.loads[taker] += 1
        self._hold(taker, partition, pool)

    def pools(self, member: int, takers: Takers) -> list[int]:
        """The pools of which the member has some in hand; last those with which it can best do without one.

        What came from elsewhere goes before what has its anchor here, and what few could take before what many could.
        """
        stacks = self.held[member]
        return sorted(
            (pool for pool, stack in stacks.items() if stack),
            key=lambda pool: (self._anchors[stacks[pool][-1]] != member, -len(takers[pool]), -pool),
        )

    def reached(self, members: Iterable[int], takers: Takers) -> set[int]:
        """The members, and all whom a partition of theirs could come to, directly or through others' hands."""
        return set().union(*_Layers(self, takers, members, frozenset()).members)


def hand_on(hands: Hands, takers: Takers, excess: Mapping[int, int], room: Mapping[int, int]) -> None:
    """Take up to `excess[member]` from members, bring up to `room[member]` to others, as many as can be at all.

    No member may be in both; what is in neither gets as many as it gives.
    """
    surplus = {member: count for member, count in excess.items() if count > 0}
    left = {member: space for member, space in room.items() if space > 0}
    # The fullest first, so that, where not all can be relieved, the fullest are.
    sources = sorted(surplus, key=lambda member: (-hands.loads[member], member))
    while left and any(surplus.values()):
        layers = _Layers(hands, takers, (member for member in sources if surplus[member]), left.keys())
        if layers.members[-1].isdisjoint(left):
            return
        search = _Search(hands, takers, layers, left)
        for source in sources:
            while surplus[source] and (path := search.path(source)):
                for (giver, pool), taker in zip(path, [*(member for member, _ in path[1:]), search.end], strict=True):
                    hands.give(giver, pool, taker)
                surplus[source] -= 1


class _Layers:
    """How many hands away from the sources members and pools are, up to the first layer with an end in it."""

    def __init__(self, hands: Hands, takers: Takers, sources: Iterable[int], ends: AbstractSet[int]) -> None:
        self.members: list[set[int]] = [set(sources)]
        """Hands away -> the members."""
        self.pools: dict[int, int] = {}
        """Pool -> how many hands away those are of whom partitions of it can be had."""
        unseen = set(range(len(hands.loads))) - self.members[0]
        while self.members[-1] and self.members[-1].isdisjoint(ends):
            found: set[int] = set()
            for member in self.members[-1]:
                for pool, stack in hands.held[member].items():
                    if stack and pool not in self.pools:
                        self.pools[pool] = len(self.members) - 1
                        fresh = takers[pool] & unseen
                        found |= fresh
                        unseen -= fresh
            self.members.append(found)


class _Search:
    """Depth-first through the layers, to each dead end once."""

    def __init__(self, hands: Hands, takers: Takers, layers: _Layers, room: dict[int, int]) -> None:
        self.end = -1
        """Where the last path found has ended; one less of its room is left."""
        self._hands = hands
        self._takers = takers
        self._pools = layers.pools
        # In the last layer only members with room are of use.
        self._members = [*layers.members[:-1], layers.members[-1] & room.keys()]
        self._room = room
        self._closed: set[int] = set()
        self._ways: dict[int, list[int]] = {}
        self._open: dict[int, list[int]] = {}

    def path(self, source: int) -> list[tuple[int, int]]:
        """(giver, pool) after (giver, pool), from the source to `end`; empty where there is none any more."""
        path: list[tuple[int, int]] = []
        at = source
        while len(path) < len(self._members) - 1:
            if (way := self._way(at, len(path))) is not None:
                path.append((at, way[0]))
                at = way[1]
            elif path:
                self._closed.add(at)
                at, _ = path.pop()
            else:
                return []
        self.end = at
        self._room[at] -= 1
        if not self._room[at]:
            del self._room[at]
            self._closed.add(at)
        return path

    def _way(self, at: int, depth: int) -> tuple[int, int] | None:
        """A pool of which `at` can give, and who is to take; None where there is no way on."""
        if at not in self._ways:
            pools = self._hands.pools(at, self._takers)
            self._ways[at] = [pool for pool in pools if self._pools.get(pool) == depth]
        ways = self._ways[at]
        while ways:
            pool = ways[-1]
            if self._hands.held[at][pool]:
                if pool not in self._open:
                    self._open[pool] = sorted(self._takers[pool] & self._members[depth + 1], reverse=True)
                takers = self._open[pool]
                while takers and takers[-1] in self._closed:
                    takers.pop()
                if takers:
                    return pool, takers[-1]
            ways.pop()
        return None
