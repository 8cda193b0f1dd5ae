"""Balance of the sticky assignors: loads as even as possible, and each member keeps what the balance allows.

"As even as possible" means: no moves, from subscriber to subscriber and through any number of members, can take a
partition from a member and give one to another member that has at least two fewer. With equal subscriptions, loads
therefore differ by at most one. Partitions without a previous owner are moved as far as possible before any that has
one. Pure; `rack_matching` handles racks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace

from sarameya.protocol.assignors.group_index import NOBODY, GroupIndex
from sarameya.protocol.assignors.partition_moves import MovablePartitions, bits, move_partitions


def even_owners(index: GroupIndex, previous_owners: Sequence[int], anchors: Sequence[int] | None = None) -> list[int]:
    """Return the new owner of each partition, with loads as even as possible.

    Args:
        index: The numbering of members and partitions.
        previous_owners: Previous owner of each partition, which must be one of its takers, or NOBODY.
        anchors: Member that should keep each partition: a member that must give partitions gives its anchored ones
            last. Default: `previous_owners`.
    """
    movable = MovablePartitions(len(index.members), index.pool_of, previous_owners if anchors is None else anchors)
    for previous in previous_owners:
        if previous != NOBODY:
            movable.keep(previous)
    unowned = (partition for partition, previous in enumerate(previous_owners) if previous == NOBODY)
    _assign_unowned(movable, index.takers, unowned)
    _even_out(movable, index)
    # A member that must give previously owned partitions gives those with the highest numbers: a few of each topic.
    for partition in index.by_number():
        if previous_owners[partition] != NOBODY:
            movable.release(previous_owners[partition], partition)
    _even_out(movable, index)
    return movable.owners(previous_owners)


def _assign_unowned(movable: MovablePartitions, takers: Sequence[frozenset[int]], partitions: Iterable[int]) -> None:
    """Assign each partition to the least loaded of its takers. Partitions with the fewest takers come first."""
    by_pool: dict[int, list[int]] = {}
    for partition in partitions:
        by_pool.setdefault(movable.pool_of[partition], []).append(partition)
    for pool in sorted(by_pool, key=lambda pool: (len(takers[pool]), pool)):
        least_loaded = [(movable.loads[member], member) for member in takers[pool]]
        heapify(least_loaded)
        for partition in by_pool[pool]:
            load, member = least_loaded[0]
            movable.add(member, partition)
            heapreplace(least_loaded, (load + 1, member))


def _even_out(movable: MovablePartitions, index: GroupIndex) -> None:
    """Move movable partitions until loads are as even as possible.

    Bring as many members as possible to the mean. A member that stays above the mean can then give nothing to the
    others, and a member that stays below it can get nothing from them. Both parts are then evened out separately.
    """
    everybody = [member for member, pools in enumerate(index.pools) if pools]
    parts = [everybody]
    while parts:
        part = parts.pop()
        loads = [movable.loads[member] for member in part]
        if not part or max(loads) - min(loads) <= 1:
            continue
        members = bits(part)
        within = [takers & members for takers in index.taker_bits]
        mean, rest = divmod(sum(loads), len(part))
        top = mean + bool(rest)
        # From the fullest to the emptiest first: that takes the fewest moves.
        for most, least in ((top, mean), (top, top), (mean, mean)) if rest else ((mean, mean),):
            move_partitions(
                movable,
                within,
                {member: movable.loads[member] - most for member in part if movable.loads[member] > most},
                {member: least - movable.loads[member] for member in part if movable.loads[member] < least},
            )
        above = movable.reached((member for member in part if movable.loads[member] > top), within)
        reached = movable.reached((member for member in part if movable.loads[member] > mean), within)
        parts += [[member for member in part if member in above], [member for member in part if member not in reached]]
