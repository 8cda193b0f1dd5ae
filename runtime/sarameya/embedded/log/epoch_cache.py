"""Which leader epochs a log was written under, and where the records of each begin and end (KIP-101, KIP-320). Pure.

The rules are those of Kafka's LeaderEpochFileCache: an epoch under which nothing was written is forgotten when the next
begins, one whose records were all deleted or cut off too. One `EpochCache` a log.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from sarameya.model import NO_LEADER_EPOCH


class EpochStart(NamedTuple):
    """A leader epoch and the first offset written under it."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """Where a leader epoch's records end (KIP-320): both -1 where nothing is known of it."""

    epoch: int
    end_offset: int


class EpochCache:
    """Epochs in the order of their offsets; the last is the one that is written under now."""

    def __init__(self, epoch: int) -> None:
        self._epochs = [EpochStart(epoch, 0)]

    @property
    def current(self) -> EpochStart:
        return self._epochs[-1]

    def begin(self, epoch: int, offset: int) -> None:
        """From `offset`, the log's end, on `epoch` is written under; it is above all before it, or ValueError."""
        if epoch <= self.current.epoch:
            raise ValueError(f"epoch {epoch} is not above {self.current.epoch}")
        if self.current.start_offset == offset:
            self._epochs.pop()  # nothing was written under it
        self._epochs.append(EpochStart(epoch, offset))

    def at(self, offset: int) -> int:
        """The epoch that `offset` was, or would be, written under; NO_LEADER_EPOCH before the log."""
        place = bisect_right(self._epochs, offset, key=lambda entry: entry.start_offset)
        return self._epochs[place - 1].epoch if place else NO_LEADER_EPOCH

    def end(self, epoch: int, log_end: int) -> EpochEnd:
        """The largest epoch not above `epoch`, and the offset its records end at (KIP-320).

        For an epoch before all that are known: where the first of those begins.
        """
        if epoch == self.current.epoch:
            return EpochEnd(epoch, log_end)
        above = bisect_right(self._epochs, epoch, key=lambda entry: entry.epoch)
        if epoch < 0 or above == len(self._epochs):
            return EpochEnd(NO_LEADER_EPOCH, -1)
        known = self._epochs[above - 1].epoch if above else epoch
        return EpochEnd(known, self._epochs[above].start_offset)

    def cut_off(self, offset: int) -> None:
        """The log ends at `offset` now: what begins behind it was never written. The current epoch goes on."""
        current = self.current
        kept = [entry for entry in self._epochs[:-1] if entry.start_offset < offset]
        self._epochs = [*kept, EpochStart(current.epoch, min(offset, current.start_offset))]

    def delete_before(self, offset: int) -> None:
        """The log starts at `offset` now: of what ended before it nothing is known any more."""
        first = bisect_right(self._epochs, offset, key=lambda entry: entry.start_offset) - 1
        if first >= 0:
            self._epochs[: first + 1] = [EpochStart(self._epochs[first].epoch, offset)]
