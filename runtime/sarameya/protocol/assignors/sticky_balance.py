"""Balance of the sticky assignors: loads as even as possible, and each member keeps what the balance allows.

"As even as possible" means: there is no way to move partitions, from one subscriber to another and through however many
members, that would relieve one member in favour of another with two or more partitions less. With equal subscriptions
loads therefore differ by at most one. As many partitions as possible without a previous owner are moved before any that
has one. Pure; `rack_matching` handles racks.
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
        anchors: Member with which each partition should stay: a member that must give partitions gives these last.
            Default: `previous_owners`.
    """
    hands = MovablePartitions(len(index.members), index.pool_of, previous_owners if anchors is None else anchors)
    for previous in previous_owners:
        if previous != NOBODY:
            hands.keep(previous)
    unowned = (partition for partition, previous in enumerate(previous_owners) if previous == NOBODY)
    _assign_unowned(hands, index.takers, unowned)
    _even_out(hands, index)
    # A member that must give previously owned partitions gives those with the highest numbers, so a little of every
    # topic.
    for partition in index.by_number():
        if previous_owners[partition] != NOBODY:
            hands.release(previous_owners[partition], partition)
    _even_out(hands, index)
    return hands.owners(previous_owners)


def _assign_unowned(hands: MovablePartitions, takers: Sequence[frozenset[int]], partitions: Iterable[int]) -> None:
    """Assign each partition to the least loaded of its takers; those with the fewest takers first."""
    by_pool: dict[int, list[int]] = {}
    for partition in partitions:
        by_pool.setdefault(hands.pool_of[partition], []).append(partition)
    for pool in sorted(by_pool, key=lambda pool: (len(takers[pool]), pool)):
        least_loaded = [(hands.loads[member], member) for member in takers[pool]]
        heapify(least_loaded)
        for partition in by_pool[pool]:
            load, member = least_loaded[0]
            hands.add(member, partition)
            heapreplace(least_loaded, (load + 1, member))


def _even_out(hands: MovablePartitions, index: GroupIndex) -> None:
    """Move movable partitions until loads are as even as possible.

    Bring as many members as possible to the mean. A member left above it can then pass nothing on to the others, and a
    member left below it can get nothing from them. Both parts are then evened out separately.
    """
    everybody = [member for member, pools in enumerate(index.pools) if pools]
    parts = [everybody]
    while parts:
        part = parts.pop()
        loads = [hands.loads[member] for member in part]
        if not part or max(loads) - min(loads) <= 1:
            continue
        members = bits(part)
        within = [takers & members for takers in index.taker_bits]
        mean, rest = divmod(sum(loads), len(part))
        top = mean + bool(rest)
        # From the fullest to the emptiest first: that takes the fewest moves.
        for most, least in ((top, mean), (top, top), (mean, mean)) if rest else ((mean, mean),):
            move_partitions(
                hands,
                within,
                {member: hands.loads[member] - most for member in part if hands.loads[member] > most},
                {member: least - hands.loads[member] for member in part if hands.loads[member] < least},
            )
        above = hands.reached((member for member in part if hands.loads[member] > top), within)
        reached = hands.reached((member for member in part if hands.loads[member] > mean), within)
        parts += [[member for member in part if member in above], [member for member in part if member not in reached]]
