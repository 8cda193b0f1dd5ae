"""Handing partitions on: from who has too many to who has room, through as few hands as possible.

Where subscriptions differ, a member with too much may share no topic with the one that has room; a third may take
from the first what it needs, and give the other something else. That is a flow over members and pools. It is sent in
rounds of shortest paths (Dinic's algorithm), which is fast, and moves few partitions. Knows nothing of why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

Takers = Mapping[int, Sequence[int]] | Sequence[Sequence[int]]
"""Pool -> the members that may take its partitions."""


class Hands:
    """Which partitions each member holds and may hand on, and its load: these and those that it keeps for good."""

    def __init__(self, members: int, pool_of: Sequence[int], homes: Sequence[int]) -> None:
        self.pool_of = pool_of
        self.loads = [0] * members
        self._homes = homes
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
        if self._homes[partition] == member:
            at = len(stack)
            while at and self._homes[stack[at - 1]] != member:
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

    def pools(self, member: int) -> list[int]:
        """The pools of which the member holds partitions; first those of which one is at home with it."""
        stacks = self.held[member]
        return sorted(
            (pool for pool, stack in stacks.items() if stack),
            key=lambda pool: (self._homes[stacks[pool][-1]] != member, -pool),
        )

    def reached(self, members: Iterable[int], takers: Takers) -> set[int]:
        """The members, and all whom a partition of theirs could come to, directly or through others' hands."""
        return set(_layers(self, takers, members, ())[0])


def hand_on(hands: Hands, takers: Takers, excess: Mapping[int, int], room: Mapping[int, int]) -> int:
    """Take up to `excess[member]` from members, bring up to `room[member]` to others, as many as can be at all.

    Returns how many. No member may be in both; what is in neither gets as many as it gives.
    """
    remaining, left = dict(excess), {member: space for member, space in room.items() if space > 0}
    # The fullest first, so that, where not all can be relieved, the fullest are.
    sources = sorted((m for m, surplus in excess.items() if surplus > 0), key=lambda m: (-hands.loads[m], m))
    handed = 0
    while True:
        depths, pool_depths = _layers(hands, takers, (m for m in sources if remaining[m]), left)
        if not depths.keys() & left.keys():
            return handed
        search = _Search(hands, takers, depths, pool_depths, left)
        for source in sources:
            while remaining[source] and (path := search.path(source)):
                for (giver, pool), taker in zip(path, [member for member, _ in path[1:]] + [search.end], strict=True):
                    hands.give(giver, pool, taker)
                remaining[source] -= 1
                left[search.end] -= 1
                if not left[search.end]:
                    del left[search.end]
                handed += 1


def _layers(
    hands: Hands, takers: Takers, sources: Iterable[int], ends: Collection[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """How many hands away from the sources each member and each pool is, up to the first layer with an end in it."""
    depths = dict.fromkeys(sources, 0)
    pool_depths: dict[int, int] = {}
    layer, depth, ended = list(depths), 0, False
    while layer and not ended:
        found: list[int] = []
        for member in layer:
            for pool, stack in hands.held[member].items():
                if stack and pool not in pool_depths:
                    pool_depths[pool] = depth
                    for taker in takers[pool]:
                        if taker not in depths:
                            depths[taker] = depth + 1
                            found.append(taker)
        layer, depth = found, depth + 1
        ended = any(member in ends for member in layer)
    return depths, pool_depths


class _Search:
    """Depth-first through the layers, each dead end and each exhausted pool visited once."""

    def __init__(
        self,
        hands: Hands,
        takers: Takers,
        depths: dict[int, int],
        pool_depths: Mapping[int, int],
        ends: Mapping[int, int],
    ) -> None:
        self.end = -1
        self._hands = hands
        self._takers = takers
        self._depths = depths
        self._pool_depths = pool_depths
        self._ends = ends
        self._ways: dict[int, list[int]] = {}
        self._next_taker = dict.fromkeys(pool_depths, 0)

    def path(self, source: int) -> list[tuple[int, int]]:
        """(giver, pool) after (giver, pool), from the source to `end`; empty where there is none any more."""
        path: list[tuple[int, int]] = []
        at = source
        while at not in self._ends:
            way = self._way(at)
            if way is not None:
                pool, taker = way
                path.append((at, pool))
                at = taker
            elif path:
                self._depths[at] = -1
                at, _ = path.pop()
            else:
                break
        self.end = at
        return path

    def _way(self, at: int) -> tuple[int, int] | None:
        depth = self._depths[at]
        ways = self._ways.get(at)
        if ways is None:
            ways = [pool for pool in self._hands.pools(at) if self._pool_depths.get(pool) == depth]
            self._ways[at] = ways
        while ways:
            pool = ways[-1]
            if self._hands.held[at][pool]:
                takers, turn = self._takers[pool], self._next_taker[pool]
                while turn < len(takers) and self._depths.get(takers[turn]) != depth + 1:
                    turn += 1
                self._next_taker[pool] = turn
                if turn < len(takers):
                    return pool, takers[turn]
            ways.pop()
        return None
