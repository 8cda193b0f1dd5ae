"""Partition moves from members with too many to members with room, through as few members as possible.

If subscriptions differ, a member with too many partitions may share no topic with a member that has room. A third
member can then take a partition from the first and give another partition to the second. The moves are a flow over
members and pools (`group_index`), computed in rounds of shortest paths (Dinic's algorithm). That is fast and moves few
partitions. The callers decide which members have too many and which have room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_

Takers = Mapping[int, int] | Sequence[int]
"""Pool -> its takers, the members that may take its partitions, as a bit set.

Bit sets, because intersections of sets of thousands of members are computed very often.
"""


def bits(members: Iterable[int]) -> int:
    """Return a bit set: a number in which the bit of each member is set."""
    found = 0
    for member in members:
        found |= 1 << member
    return found


def union(sets: Iterable[int]) -> int:
    """Return the union of bit sets."""
    return reduce(or_, sets, 0)


def members_of(found: int) -> Iterator[int]:
    """Yield the members of a bit set, ascending."""
    text = bin(found)[:1:-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)


class MovablePartitions:
    """Movable partitions and loads of the members. A load also counts a member's partitions that do not move.

    Args:
        members: Number of members.
        pool_of: Pool of each partition.
        anchors: Member that should keep each partition (its *anchor*). A member gives its anchored partitions last.
        steps: Bound for the work. After as many visits of pools and members nothing more is moved.
    """

    def __init__(self, members: int, pool_of: Sequence[int], anchors: Sequence[int], steps: float = math.inf) -> None:
        self.pool_of = pool_of
        self.loads = [0] * members
        self.steps_left = steps
        self.holders: dict[int, int] = {}
        """Pool -> the members that hold movable partitions of it, as a bit set."""
        self._anchors = anchors
        # For each member: pool -> movable partitions. The last moves first: anchored ones are at the front.
        self.held: list[dict[int, list[int]]] = [{} for _ in range(members)]

    def keep(self, member: int) -> None:
        """Count one more partition of the member that does not move."""
        self.loads[member] += 1

    def release(self, member: int, partition: int) -> None:
        """Make a partition that was counted by `keep` movable. The last released partition moves first."""
        self._hold(member, partition, self.pool_of[partition])

    def add(self, member: int, partition: int) -> None:
        """Give the member one more movable partition."""
        self.loads[member] += 1
        self._hold(member, partition, self.pool_of[partition])

    def owners(self, kept: Sequence[int]) -> list[int]:
        """Return the owner of each partition; `kept` has those of the partitions that do not move."""
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
        """Move one partition of the pool, preferably one that is not anchored at the giver."""
        stack = self.held[giver][pool]
        partition = stack.pop()
        if not stack:
            self.holders[pool] ^= 1 << giver
        self.loads[giver] -= 1
        self.loads[taker] += 1
        self._hold(taker, partition, pool)

    def sort(self, pools: list[int], member: int, takers: Takers) -> None:
        """Sort the pools for `give`: the pool that the member should give from first is last.

        Partitions that are not anchored at the member go first, and then those of pools with few takers.
        """
        stacks = self.held[member]
        pools.sort(key=lambda pool: (self._anchors[stacks[pool][-1]] != member, -takers[pool].bit_count(), -pool))

    def reached(self, members: Iterable[int], takers: Takers) -> set[int]:
        """Return these members, and all members that partitions could move to from them, directly or through others."""
        return {member for layer in _Layers(self, takers, members, 0).members for member in members_of(layer)}


def move_partitions(
    movable: MovablePartitions, takers: Takers, excess: Mapping[int, int], room: Mapping[int, int]
) -> None:
    """Move as many partitions as possible from members with excess to members with room.

    Fewer are moved if the steps are used up. Members in neither mapping get as many partitions as they give.

    Args:
        movable: Movable partitions and loads.
        takers: Members that may take partitions of each pool.
        excess: Partitions that each member should give. No member may be in both mappings.
        room: Partitions that each member may get.
    """
    surplus = {member: count for member, count in excess.items() if count > 0}
    left = {member: space for member, space in room.items() if space > 0}
    # Members with the highest loads first: if not all can give their excess, these can.
    sources = sorted(surplus, key=lambda member: (-movable.loads[member], member))
    while left and any(surplus.values()) and movable.steps_left > 0:
        layers = _Layers(movable, takers, (member for member in sources if surplus[member]), bits(left))
        if not layers.narrow():
            return
        search = _Search(movable, takers, layers, left)
        for source in sources:
            while surplus[source] and (path := search.path(source)):
                for (giver, pool), taker in zip(path, [*(member for member, _ in path[1:]), search.end], strict=True):
                    movable.give(giver, pool, taker)
                surplus[source] -= 1


class _Layers:
    """Distances of members and pools from the sources, up to the first layer with a member of `ends` in it."""

    def __init__(self, movable: MovablePartitions, takers: Takers, sources: Iterable[int], ends: int) -> None:
        self.members: list[int] = [bits(sources)]
        """Distance -> the members, as a bit set."""
        self.pools: dict[int, int] = {}
        """Pool -> the smallest distance of a member that can give its partitions."""
        self._holders, self._takers, self._ends = movable.holders, takers, ends
        unseen = ((1 << len(movable.loads)) - 1) & ~self.members[0]
        waiting = [pool for pool, holders in movable.holders.items() if holders]
        while (layer := self.members[-1]) and not layer & ends:
            movable.steps_left -= len(waiting)
            depth, found, unreached = len(self.members) - 1, 0, []
            for pool in waiting:
                if movable.holders[pool] & layer:
                    self.pools[pool] = depth
                    found |= takers[pool]
                else:
                    unreached.append(pool)
            found &= unseen
            unseen ^= found
            waiting = unreached
            self.members.append(found)

    def narrow(self) -> bool:
        """Keep only members with a path through the layers to an end. Return whether there are any."""
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
    """Depth-first search through the layers that visits each dead end once."""

    def __init__(self, movable: MovablePartitions, takers: Takers, layers: _Layers, room: dict[int, int]) -> None:
        self.end = -1
        """Last member of the path found last. Its room is one less now."""
        self._movable = movable
        self._takers = takers
        self._pools = layers.pools
        self._open = list(layers.members)
        """Distance -> the members that are no known dead end, as a bit set."""
        self._room = room
        self._ways: dict[int, list[int]] = {}
        """Member -> the pools that it can still give from in this search."""

    def path(self, source: int) -> list[tuple[int, int]]:
        """Return (giver, pool) pairs of a path from the source to `end`; empty if there is no path any more."""
        path: list[tuple[int, int]] = []
        at = source
        while len(path) < len(self._open) - 1:
            self._movable.steps_left -= 4  # a member takes that much longer than a pool
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
        """Return a pool that member `at` can give from and its first possible taker; None at a dead end."""
        stacks = self._movable.held[at]
        if at not in self._ways:
            ways = [pool for pool, stack in stacks.items() if stack and self._pools.get(pool) == depth]
            self._movable.sort(ways, at, self._takers)
            self._ways[at] = ways
        ways = self._ways[at]
        while ways:
            pool = ways[-1]
            if stacks[pool] and (takers := self._takers[pool] & self._open[depth + 1]):
                return pool, (takers & -takers).bit_length() - 1
            ways.pop()
        return None
