"""The balance that the sticky assignors share: loads as even as can be, and everybody keeps what the balance allows.

"As even as can be": there is no way to hand partitions on, from one subscriber to another and through however many
hands, that would bring a member with two or more partitions less than the first giver up by one. So with equal
subscriptions loads differ by at most one. Of partitions new to their owner as many as possible are moved before
any that has a home. Pure; racks are the matter of `rack_matching`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace

from sarameya.protocol.assignors.handing_on import Hands, bits, hand_on
from sarameya.protocol.assignors.roster import NOBODY, Roster


def balanced(roster: Roster, homes: Sequence[int], anchors: Sequence[int] | None = None) -> list[int]:
    """Partition -> owner. `homes` has each partition's member so far, which must be one of its takers, or NOBODY.

    Of those that a member must give, the last is what `anchors` says should stay with it: what is at home, if None.
    """
    hands = Hands(len(roster.members), roster.pool_of, homes if anchors is None else anchors)
    for home in homes:
        if home != NOBODY:
            hands.keep(home)
    _deal(hands, roster.takers, (partition for partition, home in enumerate(homes) if home == NOBODY))
    _even_out(hands, roster)
    # A member that must give from home gives the partitions with the highest numbers, so a little of every topic.
    for partition in roster.by_number():
        if homes[partition] != NOBODY:
            hands.release(homes[partition], partition)
    _even_out(hands, roster)
    return hands.owners(homes)


def _deal(hands: Hands, takers: Sequence[frozenset[int]], partitions: Iterable[int]) -> None:
    """Each partition to the least loaded of its takers; those with the fewest takers first."""
    dealt: dict[int, list[int]] = {}
    for partition in partitions:
        dealt.setdefault(hands.pool_of[partition], []).append(partition)
    for pool in sorted(dealt, key=lambda pool: (len(takers[pool]), pool)):
        least_loaded = [(hands.loads[member], member) for member in takers[pool]]
        heapify(least_loaded)
        for partition in dealt[pool]:
            load, member = least_loaded[0]
            hands.add(member, partition)
            heapreplace(least_loaded, (load + 1, member))


def _even_out(hands: Hands, roster: Roster) -> None:
    """Hand on what is in hand until loads are as even as can be.

    Bring as many members as possible to the mean; whoever is left above it can then hand nothing on to the others,
    and whoever is left below it can be given nothing by them, so that both parts are evened out for themselves.
    """
    everybody = [member for member, pools in enumerate(roster.pools) if pools]
    parts = [everybody]
    while parts:
        part = parts.pop()
        loads = [hands.loads[member] for member in part]
        if not part or max(loads) - min(loads) <= 1:
            continue
        members = bits(part)
        within = [takers & members for takers in roster.taker_bits]
        mean, rest = divmod(sum(loads), len(part))
        top = mean + bool(rest)
        # From the fullest to the emptiest first: it takes the fewest hands.
        for most, least in ((top, mean), (top, top), (mean, mean)) if rest else ((mean, mean),):
            hand_on(
                hands,
                within,
                {member: hands.loads[member] - most for member in part if hands.loads[member] > most},
                {member: least - hands.loads[member] for member in part if hands.loads[member] < least},
            )
        above = hands.reached((member for member in part if hands.loads[member] > top), within)
        reached = hands.reached((member for member in part if hands.loads[member] > mean), within)
        parts += [[member for member in part if member in above], [member for member in part if member not in reached]]
