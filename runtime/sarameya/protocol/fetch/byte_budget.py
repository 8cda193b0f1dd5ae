"""Byte budget for fetched messages that are not processed yet, shared fairly among partitions. Pure.

Half of the budget is divided evenly: a partition can always have its part, the floor. The other half is for any
partition that needs it. Beyond its floor, a partition gets at most half of what remains, and nothing once little
remains. Therefore a new partition always gets some bytes, and only very many slow partitions can slow down a fast one.
(Switches share packet memory in this way: Choudhury and Hahne, dynamic thresholds, 1998.)

Bytes on their way count as well: before a fetch is sent, it reserves the bytes that it may bring. A partition that is
added when all bytes are in use still gets a floor, so that the total may be 1.5 times the budget for a while. Only a
record batch larger than requested cannot be bounded beforehand: a broker sends it anyway if it is the first of a
response (KIP-74).

Handlers may keep messages after taking them. Kept bytes return to the budget only when the handler reports that, so
they have a bound of their own (`Share.may_keep_more`). A handler that gets False must not wait for more messages: it
could wait forever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import attrs

_FETCHES = 8
"""Divisor of the budget that bounds one fetch: its response is in memory twice while it is delivered."""
_SMALL = 2**-12
"""Fraction of the budget that counts as a small record batch. Batches of unknown size count as small."""
_WEIGHT = 1 / 8
"""Weight of the newest record batches in the usual size: a geometric mean, which one huge batch hardly changes."""


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
        # are computed once after many shares were opened or closed.
        self._floor = capacity // 2
        self._excess = 0
        # The part of that excess that handlers keep.
        self._kept_excess = 0
        self._is_divided = True
        self._is_tight = False
        # True if fetches may request more than a floor for each partition. They must then leave all floors free: a few
        # fetches could use them up.
        self._leaves_floors = False
        # True if not even one record batch fits in a floor. Then not every floor can be kept free.
        self._exceeds_floors = False
        # The last result of `fetch_size`, and its bound.
        self._size = 1
        self._at_most = 1
        # The usual size of a record batch: the logarithm of the mean, and the last result of `_one_batch`.
        self._log_batch = max(math.log2(capacity * _SMALL), 0)
        self._batch_bytes = 1
        self._waiting: dict[Callable[[], None], None] = {}

    def open(self) -> Share:
        """Return a new share for a partition. Close it when the partition is no longer read."""
        share = Share(self)
        self._shares.add(share)
        self._is_divided = False
        return share

    def record_batches(self, size: int, batches: int) -> None:
        """Record that a fetch brought `batches` record batches of one partition, `size` bytes together."""
        self._log_batch += (math.log2(max(size / batches, 1)) - self._log_batch) * _WEIGHT

    def fetch_size(self, at_most: int) -> int:
        """Return the bytes that one fetch may request of one partition.

        The result is `at_most` or, if many partitions share and little is left, half a floor or the size of a record
        batch. A smaller request would be useless: a broker exceeds the requested size only for one partition of a
        response. The result changes rarely, since in a fetch session each change must be sent for every partition.
        """
        self._divide()
        self._at_most = at_most = min(at_most, self._largest_fetch)
        half = max(self._floor // 2, 1)
        if half >= at_most:
            self._is_tight = self._leaves_floors = self._exceeds_floors = False
            self._size = at_most
            return at_most
        # The bound depends on the state, so that the state does not flap.
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
        self._divide()
        size = 0 if self._is_tight else max(self._spare, 0)
        if not self._leaves_floors:
            size += empty * self._floor + sum(max(self._floor - share.held, 0) for share in holding)
        if self._exceeds_floors:
            # A huge batch belongs to one partition; the others must not wait for its bytes.
            huge = 4 * self._one_batch()
            usual = sum(min(share.held, huge) for share in self._shares if share.held)
            size = min(size, self.capacity - usual - self.reserved)
        size = max(min(size, at_most, self._largest_fetch), 0)
        self.reserved += size
        return size

    def settle(self, reserved: int) -> None:
        """Return reserved bytes. Shares hold the bytes of the response by now."""
        self.reserved -= reserved
        self._notify_waiting()

    def notify_of_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when bytes have been returned."""
        self._waiting[callback] = None

    @property
    def _spare(self) -> int:
        """Free bytes outside of all floors; negative while fetches on their way use floors."""
        return self.capacity - self.reserved - len(self._shares) * self._floor - self._excess

    def _one_batch(self) -> int:
        """Return a size in which most record batches fit: a power of two, which changes only if it is plainly wrong."""
        fits = 1.25 * 2**self._log_batch
        if not self._batch_bytes / 4 <= fits <= self._batch_bytes:
            self._batch_bytes = 2 ** math.ceil(math.log2(max(fits, 1)))
        return self._batch_bytes

    def _divide(self) -> None:
        if self._is_divided:
            return
        self._is_divided = True
        self._floor = self.capacity // 2 // max(len(self._shares), 1)
        self._excess = sum(max(share.held - self._floor, 0) for share in self._shares if share.held)
        self._kept_excess = sum(max(share.kept - self._floor, 0) for share in self._shares if share.kept)

    def _notify_waiting(self) -> None:
        if self._waiting:
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
        if not self.held:
            return True
        budget = self._budget
        budget._divide()
        beyond = 0 if budget._is_tight else max(budget._spare, 0) // 2
        return self.held + budget._size <= budget._floor + beyond

    @property
    def may_keep_more(self) -> bool:
        """True if a handler that keeps its messages and waits for more will get more.

        If all handlers that keep messages obey this, those that wait have room once all other messages are taken.
        Together they keep at most an eighth of the budget beyond floors. Another eighth is for the long polls that are
        always out. A quarter is left, of which any partition may have half: a handler may keep that half, less the size
        of a fetch, beyond its floor. If only a partition's own room decided, one handler that keeps little could take
        the room of another that keeps much and waits. Within half a floor, a partition always has room.

        Only kept bytes count. Buffered messages and fetches on their way block nobody for long, and taking messages of
        this partition needs no room.
        """
        budget, kept = self._budget, self.kept
        budget._divide()
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
        if budget._is_divided:
            budget._kept_excess += max(after - budget._floor, 0) - max(before - budget._floor, 0)

    def hold(self, size: int) -> None:
        """Count `size` more bytes as held. Never refuses: callers check `has_room` first."""
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
            budget._is_divided = False
            budget._notify_waiting()

    def _change(self, size: int) -> None:
        budget, before = self._budget, self.held
        self.held = after = before + size
        budget.held += size
        floor = budget._floor
        if budget._is_divided and (after > floor or before > floor):
            budget._excess += max(after - floor, 0) - max(before - floor, 0)
