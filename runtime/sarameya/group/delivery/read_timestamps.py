"""Timestamp of the oldest record that was read and is not processed yet, batch by batch. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

_MOST_RUNS = 512
"""Maximum number of runs; more are merged."""


@attrs.define(slots=True)
class _Run:
    """A batch, or several merged ones."""

    from_offset: int
    next_offset: int
    timestamp: int
    """Timestamp of the first record, in milliseconds since 1970."""


class ReadTimestamps:
    """First timestamp of each batch that a claim's handler received, until the whole batch is processed.

    If very many batches are unprocessed, neighbours are merged and keep the older timestamp.
    """

    __slots__ = ("_runs", "_span")

    def __init__(self) -> None:
        self._runs: deque[_Run] = deque()
        # Maximum number of offsets in a merged run.
        self._span = 0

    def add(self, from_offset: int, next_offset: int, timestamp: int) -> None:
        """Add a batch.

        Earlier batches that end after `from_offset` are dropped: the position was moved back, so they are read again.

        Args:
            from_offset: First offset of the batch.
            next_offset: Offset after the batch.
            timestamp: Timestamp of its first record, in milliseconds since 1970.
        """
        while self._runs and self._runs[-1].next_offset > from_offset:
            self._runs.pop()
        self._append([_Run(from_offset, next_offset, timestamp)])
        while len(self._runs) > _MOST_RUNS:
            self._span = max(2 * self._span, self._runs[-1].next_offset - self._runs[0].from_offset >> 8)
            runs, self._runs = self._runs, deque()
            self._append(runs)

    def _append(self, runs: Iterable[_Run]) -> None:
        for run in runs:
            last = self._runs[-1] if self._runs else None
            if last is not None and run.next_offset - last.from_offset <= self._span:
                last.next_offset = run.next_offset
            else:
                self._runs.append(run)

    def oldest(self, done: int) -> int | None:
        """Return the first timestamp of the oldest unprocessed batch.

        Args:
            done: Offset up to which messages are processed (exclusive).

        Returns:
            Milliseconds since 1970; -1 if the records have no timestamp; None if every batch is processed.
        """
        while self._runs and self._runs[0].next_offset <= done:
            self._runs.popleft()
        if not self._runs:
            self._span = 0
            return None
        return self._runs[0].timestamp
