"""One budget of bytes for what is fetched and not yet dealt with, shared fairly among partitions. Pure.

Half of it is dealt out evenly: that much (the floor) a partition can always have. The other half is for whoever wants
it, but a partition gets no more once that would be beyond its floor by half of what is left, nor beyond it at all once
that is little: so there is always something for a newcomer, and it takes very many slow partitions to slow down a quick
one. (Switches share their packet memory so: Choudhury and Hahne's dynamic thresholds, 1998.)

Bytes on their way count as well: a fetch reserves what it may bring before it goes out. Who comes when all is used up
may have a floor all the same, so it may be half as much again for a while. What cannot be bounded beforehand is a
record batch larger than what was asked for, which a broker sends all the same where it is the first of an answer
(KIP-74).

Handlers may keep what they have taken. What is kept is given back when its handler says so, and by nothing else, so it
has a bound of its own (`Share.may_keep_more`): one that is told must not wait for more, or may wait for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import attrs

_FETCHES = 8
"""No fetch may bring more than this part of the budget: its answer is in memory twice while it is handed over."""
_SMALL = 2**-12
"""A record batch that takes this part of the budget is small; so are those that are not known yet."""
_WEIGHT = 1 / 8
"""Of the newest record batches in what is taken for usual: a geometric mean, which a giant hardly changes."""


class ByteBudget:
    """`capacity` bytes for any number of shares."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._largest_fetch = max(capacity // _FETCHES, 1)
        self.held = 0
        """By all shares together."""
        self.reserved = 0
        """By fetches that are on their way."""
        self._shares: set[Share] = set()
        # How much of it is each share's, and what shares hold beyond that, added up; as of the shares there were when
        # it was last dealt out: where many come or go, that is done once.
        self._floor = capacity // 2
        self._excess = 0
        # Of that excess, what handlers keep.
        self._kept_excess = 0
        self._is_dealt = True
        self._is_tight = False
        # Where a fetch may ask for more than a floor of each partition, a few could use up the floors of all.
        self._leaves_floors = False
        # Where not even a record batch fits in a floor, not everybody's can be kept.
        self._exceeds_floors = False
        # What was last asked for of a partition.
        self._size = 1
        self._at_most = 1
        self._log_batch = max(math.log2(capacity * _SMALL), 0)
        self._enough = 1
        self._waiting: dict[Callable[[], None], None] = {}

    def open(self) -> Share:
        """A share of it, for a partition that is going to be read. Close it."""
        share = Share(self)
        self._shares.add(share)
        self._is_dealt = False
        return share

    def came(self, size: int, batches: int) -> None:
        """A fetch has brought so many record batches of one partition, of `size` bytes together."""
        self._log_batch += (math.log2(max(size / batches, 1)) - self._log_batch) * _WEIGHT

    def fetch_size(self, at_most: int) -> int:
        """How much one fetch may ask for of one partition: `at_most`, or, where many share and little is left, half a
        floor, or what a record batch takes.

        (Less than one would be asked for in vain: a broker sends a batch that is larger than its partition's part for
        one partition of an answer only.) It changes rarely: in a fetch session each change must be told for every
        partition.
        """
        self._deal()
        self._at_most = at_most = min(at_most, self._largest_fetch)
        half = max(self._floor // 2, 1)
        if half >= at_most:
            self._is_tight = self._leaves_floors = self._exceeds_floors = False
            self._size = at_most
            return at_most
        # Two bounds, so that it does not go to and fro.
        self._is_tight = self._spare < self.capacity // (4 if self._is_tight else 8)
        self._leaves_floors = not self._is_tight
        self._exceeds_floors = self._is_tight and self._one_batch() > half
        self._size = min(max(half, self._one_batch()), at_most) if self._is_tight else at_most
        return self._size

    def reserve(self, at_most: int, empty: int, holding: Iterable[Share]) -> int:
        """Reserve what a fetch may bring for its partitions, `empty` of which hold nothing; 0 if there is none left.

        Give it back with `settle` once the answer is there, or is not to be had.
        """
        self._deal()
        size = 0 if self._is_tight else max(self._spare, 0)
        if not self._leaves_floors:
            size += empty * self._floor + sum(max(self._floor - share.held, 0) for share in holding)
        if self._exceeds_floors:
            # A giant is one partition's; the others are not to wait for it.
            giant = 4 * self._one_batch()
            usual = sum(min(share.held, giant) for share in self._shares if share.held)
            size = min(size, self.capacity - usual - self.reserved)
        size = max(min(size, at_most, self._largest_fetch), 0)
        self.reserved += size
        return size

    def settle(self, reserved: int) -> None:
        """Give back what was reserved; what came instead is held."""
        self.reserved -= reserved
        self._told()

    def tell_of_room(self, callback: Callable[[], None]) -> None:
        """Call back, once, when something has been given back."""
        self._waiting[callback] = None

    @property
    def _spare(self) -> int:
        """What is left of all that is nobody's floor; negative where floors are in use by fetches on their way."""
        return self.capacity - self.reserved - len(self._shares) * self._floor - self._excess

    def _one_batch(self) -> int:
        """What most record batches fit in: a power of two, which stays unless it is plainly wrong."""
        fits = 1.25 * 2**self._log_batch
        if not self._enough / 4 <= fits <= self._enough:
            self._enough = 2 ** math.ceil(math.log2(max(fits, 1)))
        return self._enough

    def _deal(self) -> None:
        if self._is_dealt:
            return
        self._is_dealt = True
        self._floor = self.capacity // 2 // max(len(self._shares), 1)
        self._excess = sum(max(share.held - self._floor, 0) for share in self._shares if share.held)
        self._kept_excess = sum(max(share.kept - self._floor, 0) for share in self._shares if share.kept)

    def _told(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for callback in waiting:
            callback()


@attrs.define(slots=True, eq=False)
class Share:
    """What one partition holds of the budget."""

    _budget: ByteBudget
    held: int = 0
    kept: int = 0
    """What its handler says it keeps, of what is held."""
    _is_closed: bool = False

    @property
    def has_room(self) -> bool:
        """Whether it may have what a fetch brings, beside what it holds."""
        budget = self._budget
        budget._deal()
        beyond = 0 if budget._is_tight else max(budget._spare, 0) // 2
        return not self.held or self.held + budget._size <= budget._floor + beyond

    @property
    def may_keep_more(self) -> bool:
        """Whether more comes for a handler that waits for it and keeps what it does.

        As long as all that keep anything are told so, those who wait have room once everything else is taken: beyond
        floors they keep no more than an eighth of the budget together, so that a quarter is left, of which anybody may
        have half, and another eighth for the long polls that are always out; and none keeps more beyond its floor than
        that half, less what a fetch may bring. (Were a partition told by its own room only, one that keeps little could
        take away, without a word, the room of another that keeps much and waits.) Within half a floor a partition has
        room whatever the others do.

        What counts is what handlers keep. What waits to be taken, here or elsewhere, and what is on its way is in
        nobody's way for long; and where it is this partition's, to take it needs no room.
        """
        budget, kept = self._budget, self.kept
        budget._deal()
        if not kept or kept + min(max(budget._floor // 2, budget._one_batch()), budget._at_most) <= budget._floor:
            return True
        beyond = budget.capacity // 8 - budget._at_most
        return kept <= budget._floor + beyond and budget._kept_excess <= budget.capacity // 8

    def keep(self, size: int) -> None:
        """The handler keeps so much more of what it has taken."""
        if not self._is_closed:
            self._keep(size)
            self.hold(size)

    def keep_less(self, size: int) -> None:
        """So much less."""
        if not self._is_closed:
            self._keep(-size)
            self.release(size)

    def _keep(self, size: int) -> None:
        budget, before = self._budget, self.kept
        self.kept = after = before + size
        if budget._is_dealt:
            budget._kept_excess += max(after - budget._floor, 0) - max(before - budget._floor, 0)

    def hold(self, size: int) -> None:
        """These bytes are held from now on. Never refused: whoever asks `has_room` first keeps within the budget."""
        if not self._is_closed:
            self._change(size)

    def release(self, size: int) -> None:
        """These are no longer."""
        if not self._is_closed:
            self._change(-size)
            self._budget._told()

    def close(self) -> None:
        """The partition is read no longer, and all that it holds is given back."""
        if not self._is_closed:
            budget = self._budget
            budget.held -= self.held
            self.held, self.kept, self._is_closed = 0, 0, True
            budget._shares.discard(self)
            budget._is_dealt = False
            budget._told()

    def _change(self, size: int) -> None:
        budget, before = self._budget, self.held
        self.held = after = before + size
        budget.held += size
        if budget._is_dealt:
            budget._excess += max(after - budget._floor, 0) - max(before - budget._floor, 0)
