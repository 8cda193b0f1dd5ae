"""Byte budget for fetched messages that are not processed yet, shared fairly among partitions. Pure.

Half of the budget is divided evenly: a partition can always have that much (its floor). The other half is for any
partition that needs it. A partition gets nothing beyond its floor once that would exceed half of the remainder, nor
once the remainder is small. Therefore there is always something for a newcomer, and it takes very many slow partitions
to slow down a fast one. (Switches share packet memory in this way: Choudhury and Hahne, dynamic thresholds, 1998.)

Bytes on their way count as well: a fetch reserves the bytes that it may bring before it is sent. A partition that joins
when everything is in use still gets a floor, so the total may be half as much again for a while. Only a record batch
larger than requested cannot be bounded beforehand: a broker sends it anyway if it is the first of a response (KIP-74).

Handlers may keep messages after taking them. Kept bytes return to the budget only when the handler reports that, so
they have a bound of their own (`Share.may_keep_more`). A handler that gets False must not wait for more messages: it
could wait for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import attrs

_FETCHES = 8
"""Divisor of the budget that bounds one fetch: its response is in memory twice while it is handed over."""
_SMALL = 2**-12
"""Fraction of the budget that counts as a small record batch. Batches of unknown size count as small."""
_WEIGHT = 1 / 8
"""Weight of the newest record batches in the usual size: a geometric mean, which a giant hardly changes."""


class ByteBudget:
    """A budget of `capacity` bytes for any number of shares."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._largest_fetch = max(capacity // _FETCHES, 1)
        self.held = 0
        """Bytes held by all shares together."""
        self.reserved = 0
        """Bytes reserved by fetches on their way."""
        self._shares: set[Share] = set()
        # The floor of each share, and the sum of the bytes that shares hold beyond it, as of the last division. They
        # are computed once after many shares have come or gone.
        self._floor = capacity // 2
        self._excess = 0
        # The part of that excess that handlers keep.
        self._kept_excess = 0
        self._is_dealt = True
        self._is_tight = False
        # If a fetch may request more than a floor of each partition, a few could use up the floors of all.
        self._leaves_floors = False
        # If not even one record batch fits in a floor, not every floor can be kept free.
        self._exceeds_floors = False
        # The bytes that the last fetch requested of a partition.
        self._size = 1
        self._at_most = 1
        self._log_batch = max(math.log2(capacity * _SMALL), 0)
        self._enough = 1
        self._waiting: dict[Callable[[], None], None] = {}

    def open(self) -> Share:
        """Return a new share, for a partition that is going to be read. Close it afterwards."""
        share = Share(self)
        self._shares.add(share)
        self._is_dealt = False
        return share

    def came(self, size: int, batches: int) -> None:
        """Record that a fetch has brought `batches` record batches of one partition, `size` bytes together."""
        self._log_batch += (math.log2(max(size / batches, 1)) - self._log_batch) * _WEIGHT

    def fetch_size(self, at_most: int) -> int:
        """Return the bytes that one fetch may request of one partition.

        That is `at_most` or, if many partitions share and little is left, half a floor or the size of a record batch. A
        smaller request would be useless: a broker sends a batch larger than its partition's part for one partition of a
        response only. The result changes rarely, since in a fetch session each change must be sent for every partition.
        """
        self._deal()
        self._at_most = at_most = min(at_most, self._largest_fetch)
        half = max(self._floor // 2, 1)
        if half >= at_most:
            self._is_tight = self._leaves_floors = self._exceeds_floors = False
            self._size = at_most
            return at_most
        # Two bounds, so that the state does not flap.
        self._is_tight = self._spare < self.capacity // (4 if self._is_tight else 8)
        self._leaves_floors = not self._is_tight
        self._exceeds_floors = self._is_tight and self._one_batch() > half
        self._size = min(max(half, self._one_batch()), at_most) if self._is_tight else at_most
        return self._size

    def reserve(self, at_most: int, empty: int, holding: Iterable[Share]) -> int:
        """Reserve the bytes that a fetch may bring. Return them with `settle` after the response, or after a failure.

        Args:
            at_most: Bytes that the fetch would request.
            empty: Number of its partitions that hold nothing.
            holding: Shares of its other partitions.

        Returns:
            The reserved bytes; 0 if nothing is left.
        """
        self._deal()
        size = 0 if self._is_tight else max(self._spare, 0)
        if not self._leaves_floors:
            size += empty * self._floor + sum(max(self._floor - share.held, 0) for share in holding)
        if self._exceeds_floors:
            # A giant belongs to one partition; the others must not wait for it.
            giant = 4 * self._one_batch()
            usual = sum(min(share.held, giant) for share in self._shares if share.held)
            size = min(size, self.capacity - usual - self.reserved)
        size = max(min(size, at_most, self._largest_fetch), 0)
        self.reserved += size
        return size

    def settle(self, reserved: int) -> None:
        """Return reserved bytes. The bytes that have come are held by now."""
        self.reserved -= reserved
        self._notify_waiting()

    def notify_of_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when bytes have been returned."""
        self._waiting[callback] = None

    @property
    def _spare(self) -> int:
        """Bytes that are in nobody's floor; negative while fetches on their way use floors."""
        return self.capacity - self.reserved - len(self._shares) * self._floor - self._excess

    def _one_batch(self) -> int:
        """Return a size that most record batches fit in: a power of two, which changes only if it is plainly wrong."""
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

    def _notify_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for callback in waiting:
            callback()


@attrs.define(slots=True, eq=False)
class Share:
    """Part of the budget that one partition holds."""

    _budget: ByteBudget
    held: int = 0
    kept: int = 0
    """Held bytes that the handler reports as kept."""
    _is_closed: bool = False

    @property
    def has_room(self) -> bool:
        """True if the share can take the result of a fetch in addition to the bytes that it holds."""
        budget = self._budget
        budget._deal()
        beyond = 0 if budget._is_tight else max(budget._spare, 0) // 2
        return not self.held or self.held + budget._size <= budget._floor + beyond

    @property
    def may_keep_more(self) -> bool:
        """True if a handler that keeps its messages and waits for more will get more.

        If all handlers that keep anything obey this, those that wait have room once all other messages are taken.
        Beyond floors they keep together at most an eighth of the budget. A quarter is left, of which any partition may
        have half, and another eighth for the long polls that are always out. No handler keeps more beyond its floor
        than that half, less the size of a fetch. If a partition's own room decided alone, one handler that keeps little
        could silently take the room of another that keeps much and waits. Within half a floor a partition has room
        whatever the others do.

        Only kept bytes count. Buffered messages and fetches on their way, here or elsewhere, do not block anybody for
        long; to take messages of this partition needs no room.
        """
        budget, kept = self._budget, self.kept
        budget._deal()
        if not kept or kept + min(max(budget._floor // 2, budget._one_batch()), budget._at_most) <= budget._floor:
            return True
        beyond = budget.capacity // 8 - budget._at_most
        return kept <= budget._floor + beyond and budget._kept_excess <= budget.capacity // 8

    def keep(self, size: int) -> None:
        """Record that the handler keeps `size` more bytes of the messages that it has taken."""
        if not self._is_closed:
            self._keep(size)
            self.hold(size)

    def keep_less(self, size: int) -> None:
        """Record that the handler keeps `size` bytes less."""
        if not self._is_closed:
            self._keep(-size)
            self.release(size)

    def _keep(self, size: int) -> None:
        budget, before = self._budget, self.kept
        self.kept = after = before + size
        if budget._is_dealt:
            budget._kept_excess += max(after - budget._floor, 0) - max(before - budget._floor, 0)

    def hold(self, size: int) -> None:
        """Count `size` more bytes as held. Never refused: the budget is kept by callers that check `has_room` first."""
        if not self._is_closed:
            self._change(size)

    def release(self, size: int) -> None:
        """Return `size` held bytes."""
        if not self._is_closed:
            self._change(-size)
            self._budget._notify_waiting()

    def close(self) -> None:
        """Return all held bytes: the partition is no longer read."""
        if not self._is_closed:
            budget = self._budget
            budget.held -= self.held
            self.held, self.kept, self._is_closed = 0, 0, True
            budget._shares.discard(self)
            budget._is_dealt = False
            budget._notify_waiting()

    def _change(self, size: int) -> None:
        budget, before = self._budget, self.held
        self.held = after = before + size
        budget.held += size
        if budget._is_dealt:
            budget._excess += max(after - budget._floor, 0) - max(before - budget._floor, 0)
