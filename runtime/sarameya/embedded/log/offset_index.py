"""Where in a log's bytes an offset stands, roughly: an entry every 4 KiB, as in Kafka's index files. Pure.

This log finds offsets without it. It is here for what Kafka makes of it that clients see: how far a read looks for
aborted transactions. One `OffsetIndex` a log.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

INTERVAL = 4096
"""Bytes; Kafka's `log.index.interval.bytes`."""


class _Entry(NamedTuple):
    position: int
    """Of a batch, in bytes since the log began."""
    last_offset: int


class OffsetIndex:
    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._bytes_since = 0

    def add(self, position: int, size: int, last_offset: int) -> None:
        """A batch was written."""
        if self._bytes_since > INTERVAL:
            self._entries.append(_Entry(position, last_offset))
            self._bytes_since = 0
        self._bytes_since += size

    def bound(self, position: int) -> int | None:
        """The last offset of the first batch at or behind `position` that has an entry; None if none has."""
        place = bisect_left(self._entries, position, key=lambda entry: entry.position)
        return self._entries[place].last_offset if place < len(self._entries) else None

    def cut_off(self, offset: int) -> None:
        """The log ends at `offset` now."""
        del self._entries[bisect_left(self._entries, offset, key=lambda entry: entry.last_offset) :]
        self._bytes_since = 0
