"""Handing partitions on: from who has too many to who has room, through as few hands as possible.

Where subscriptions differ, a member with too much may share no topic with the one that has room; a third may take
from the first what it needs, and give the other something else. That is a flow over members and pools. It is sent in
rounds of shortest paths (Dinic's algorithm), which is fast, and moves few partitions. Knows nothing of why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_

Takers = Mapping[int, int] | Sequence[int]
"""Pool -> the members that may take its partitions, a bit each: what two sets of thousands have in common is asked over
and over."""


def bits(members: Iterable[int]) -> int:
    """The members as a number in which each one's bit is set."""
    found = 0
    for member in members:
        found |= 1 << member
    return found


def union(sets: Iterable[int]) -> int:
    """Whoever is in one of them, a bit each."""
    return reduce(or_, sets, 0)


def members_of(found: int) -> Iterator[int]:
    """The members whose bits are set, ascending."""
    text = bin(found)[:1:-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)


class Hands:
    """Which partitions each member holds and may hand on, and its load: these and those that it keeps for good.

    `steps` bounds the work: once as many looks were taken at pools and members, nothing more is handed on.
    """

    def __init__(self, members: int, pool_of: Sequence[int], anchors: Sequence[int], steps: float = math.inf) -> None:
        self.pool_of = pool_of
        self.loads = [0] * members
        self.steps_left = steps
        self.holders: dict[int, int] = {}
        """Pool -> the members that have some of it in hand, a bit each."""
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
        self.holders[pool] = self.holders.get(pool, 0) | 1 << member

    def give(self, giver: int, pool: int, taker: int) -> None:
        """Hand on that partition of the pool which the giver can best do without."""
        stack = self.held[giver][pool]
        partition = stack.pop()
        if not stack:
            self.holders[pool] ^= 1 << giver
        self.loads[giver] -= 1
        self.loads[taker] += 1
        self._hold(taker, partition, pool)

    def sort(self, pools: list[int], member: int, takers: Takers) -> None:
        """Put last those of the pools with one of whose partitions the member, who has some, can best do without.

        What came from elsewhere goes before what has its anchor here, and what few could take before what many could.
        """
        stacks = self.held[member]
        pools.sort(key=lambda pool: (self._anchors[stacks[pool][-1]] != member, -takers[pool].bit_count(), -pool))

    def reached(self, members: Iterable[int], takers: Takers) -> set[int]:
        """The members, and all whom a partition of theirs could come to, directly or through others' hands."""
        return {member for layer in _Layers(self, takers, members, 0).members for member in members_of(layer)}


def hand_on(hands: Hands, takers: Takers, excess: Mapping[int, int], room: Mapping[int, int]) -> None:
    """Take up to `excess[member]` from members, bring up to `room[member]` to others, as many as can be at all.

    No member may be in both; what is in neither gets as many as it gives. It is less where the steps are used up.
    """
    surplus = {member: count for member, count in excess.items() if count > 0}
    left = {member: space for member, space in room.items() if space > 0}
    # The fullest first, so that, where not all can be relieved, the fullest are.
    sources = sorted(surplus, key=lambda member: (-hands.loads[member], member))
    while left and any(surplus.values()) and hands.steps_left > 0:
        layers = _Layers(hands, takers, (member for member in sources if surplus[member]), bits(left))
        if not layers.narrow():
            return
        search = _Search(hands, takers, layers, left)
        for source in sources:
            while surplus[source] and (path := search.path(source)):
                for (giver, pool), taker in zip(path, [*(member for member, _ in path[1:]), search.end], strict=True):
                    hands.give(giver, pool, taker)
                surplus[source] -= 1


class _Layers:
    """How many hands away from the sources members and pools are, up to the first layer with an end in it."""

    def __init__(self, hands: Hands, takers: Takers, sources: Iterable[int], ends: int) -> None:
        self.members: list[int] = [bits(sources)]
        """Hands away -> the members, a bit each."""
        self.pools: dict[int, int] = {}
        """Pool -> how many hands away those are of whom partitions of it can be had."""
        self._holders, self._takers, self._ends = hands.holders, takers, ends
        unseen = ((1 << len(hands.loads)) - 1) & ~self.members[0]
        waiting = [pool for pool, holders in hands.holders.items() if holders]
        while (layer := self.members[-1]) and not layer & ends:
            hands.steps_left -= len(waiting)
            depth, found, still = len(self.members) - 1, 0, []
            for pool in waiting:
                if hands.holders[pool] & layer:
                    self.pools[pool] = depth
                    found |= takers[pool]
                else:
                    still.append(pool)
            found &= unseen
            unseen ^= found
            waiting = still
            self.members.append(found)

    def narrow(self) -> bool:
        """Leave only those from whom there is a way through the layers to an end; whether there are any."""
        self.members[-1] &= self._ends
        by_depth: list[list[int]] = [[] for _ in self.members]
        for pool, depth in self.pools.items():
            by_depth[depth].append(pool)
        self.pools = {}
        for depth in reversed(range(len(self.members) - 1)):
            givers = 0
            for pool in by_depth[depth]:
                if self._takers[pool] & self.members[depth + 1]:
                    self.pools[pool] = depth
                    givers |= self._holders[pool]
            self.members[depth] &= givers
        return self.members[-1] != 0


class _Search:
    """Depth-first through the layers, to each dead end once."""

    def __init__(self, hands: Hands, takers: Takers, layers: _Layers, room: dict[int, int]) -> None:
        self.end = -1
        """Where the last path found has ended; one less of its room is left."""
        self._hands = hands
        self._takers = takers
        self._pools = layers.pools
        self._open = list(layers.members)
        """Hands away -> the members from whom there may be a way on."""
        self._room = room
        self._ways: dict[int, list[int]] = {}

    def path(self, source: int) -> list[tuple[int, int]]:
        """(giver, pool) after (giver, pool), from the source to `end`; empty where there is none any more."""
        path: list[tuple[int, int]] = []
        at = source
        while len(path) < len(self._open) - 1:
            self._hands.steps_left -= 4  # a member takes that much longer than a pool
            if (way := self._way(at, len(path))) is not None:
                path.append((at, way[0]))
                at = way[1]
            elif path:
                self._open[len(path)] ^= 1 << at
                at, _ = path.pop()
            else:
                return []
        self.end = at
        self._room[at] -= 1
        if not self._room[at]:
            del self._room[at]
            self._open[-1] ^= 1 << at
        return path

    def _way(self, at: int, depth: int) -> tuple[int, int] | None:
        """A pool of which `at` can give, and who is to take: the first who may; None where there is no way on."""
        stacks = self._hands.held[at]
        if at not in self._ways:
            ways = [pool for pool, stack in stacks.items() if stack and self._pools.get(pool) == depth]
            self._hands.sort(ways, at, self._takers)
            self._ways[at] = ways
        ways = self._ways[at]
        while ways:
            pool = ways[-1]
            if stacks[pool] and (takers := self._takers[pool] & self._open[depth + 1]):
                return pool, (takers & -takers).bit_length() - 1
            ways.pop()
        return None
