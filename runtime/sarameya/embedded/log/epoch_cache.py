"""Leader epochs of a log, and the offsets where each starts and ends (KIP-101, KIP-320). Pure.

The rules are those of Kafka's LeaderEpochFileCache. An epoch without records is removed when the next epoch starts. An
epoch is also removed when all its records are deleted or truncated.
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
    """The end offset of a leader epoch (KIP-320). Both fields are -1 if the epoch is unknown."""

    epoch: int
    end_offset: int


class EpochCache:
    """Leader epochs of one log in the order of their offsets. New records are written under the last epoch."""

    def __init__(self, epoch: int) -> None:
        self._epochs = [EpochStart(epoch, 0)]

    @property
    def current(self) -> EpochStart:
        """The leader epoch that records are written under now."""
        return self._epochs[-1]

    def begin(self, epoch: int, offset: int) -> None:
        """Start `epoch` at `offset`, the log's end.

        Raises:
            ValueError: `epoch` is not above all earlier epochs.
        """
        if epoch <= self.current.epoch:
            raise ValueError(f"epoch {epoch} is not above {self.current.epoch}")
        if self.current.start_offset == offset:
            self._epochs.pop()  # no record was written under this epoch
        self._epochs.append(EpochStart(epoch, offset))

    def at(self, offset: int) -> int:
        """Return the epoch that `offset` was, or would be, written under; NO_LEADER_EPOCH before the log start."""
        index = bisect_right(self._epochs, offset, key=lambda entry: entry.start_offset)
        return self._epochs[index - 1].epoch if index else NO_LEADER_EPOCH

    def end(self, epoch: int, log_end: int) -> EpochEnd:
        """Return the largest known epoch that is not above `epoch`, and its end offset (KIP-320).

        If `epoch` is below all known epochs, return `epoch` and the start offset of the oldest known epoch.
        """
        if epoch == self.current.epoch:
            return EpochEnd(epoch, log_end)
        above = bisect_right(self._epochs, epoch, key=lambda entry: entry.epoch)
        if epoch < 0 or above == len(self._epochs):
            return EpochEnd(NO_LEADER_EPOCH, -1)
        known = self._epochs[above - 1].epoch if above else epoch
        return EpochEnd(known, self._epochs[above].start_offset)

    def truncate(self, offset: int) -> None:
        """Truncate at `offset`: remove the epochs that start at or after it, except the current epoch."""
        current = self.current
        remaining = [entry for entry in self._epochs[:-1] if entry.start_offset < offset]
        self._epochs = [*remaining, EpochStart(current.epoch, min(offset, current.start_offset))]

    def delete_before(self, offset: int) -> None:
        """Move the log start to `offset`: remove the epochs that end before it."""
        first = bisect_right(self._epochs, offset, key=lambda entry: entry.start_offset) - 1
        if first >= 0:
            self._epochs[: first + 1] = [EpochStart(self._epochs[first].epoch, offset)]
