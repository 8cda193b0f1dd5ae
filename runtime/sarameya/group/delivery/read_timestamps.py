"""The timestamp of the oldest record that was read and is not processed yet, kept batch by batch. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

_MOST = 512
"""Maximum of runs of records that are kept apart."""


@attrs.define(slots=True)
class _Run:
    from_offset: int
    next_offset: int
    timestamp: int
    """Timestamp of the first record, in milliseconds since 1970."""


class ReadTimestamps:
    """The first timestamp of each batch that a claim's handler received, until all of the batch is processed.

    If very many batches are unprocessed, neighbours are merged, with the older one's timestamp.
    """

    __slots__ = ("_runs", "_span")

    def __init__(self) -> None:
        self._runs: deque[_Run] = deque()
        # Maximum of offsets that are merged into one run.
        self._span = 0

    def add(self, from_offset: int, next_offset: int, timestamp: int) -> None:
        """Add a batch.

        Batches that end after its start are dropped: they are read again, since the position was moved back.
        """
        while self._runs and self._runs[-1].next_offset > from_offset:
            self._runs.pop()
        self._append([_Run(from_offset, next_offset, timestamp)])
        while len(self._runs) > _MOST:
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
        """Return the first timestamp of the first batch that is not processed up to `done`; None if there is none.

        -1 if its records have no timestamp.
        """
        while self._runs and self._runs[0].next_offset <= done:
            self._runs.popleft()
        if not self._runs:
            self._span = 0
            return None
        return self._runs[0].timestamp
