"""A sparse index from byte positions to offsets, with an entry every 4 KiB as in Kafka's index files. Pure.

This log finds offsets without it. The index exists because clients can observe it: Kafka searches for aborted
transactions up to the next index entry.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

INTERVAL = 4096
"""Bytes between two entries; Kafka's `log.index.interval.bytes`."""


class _Entry(NamedTuple):
    position: int
    """Position of a batch, in bytes from the beginning of the log. Deleted batches count."""
    last_offset: int


class OffsetIndex:
    """Index entries of one log."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._bytes_since = 0

    def add(self, position: int, size: int, last_offset: int) -> None:
        """Count an appended batch, and add an entry for it if the last entry is more than INTERVAL bytes back.

        Args:
            position: Start of the batch, in bytes from the beginning of the log. Deleted batches count.
            size: Size of the batch in bytes.
            last_offset: Offset of its last record.
        """
        if self._bytes_since > INTERVAL:
            self._entries.append(_Entry(position, last_offset))
            self._bytes_since = 0
        self._bytes_since += size

    def bound(self, position: int) -> int | None:
        """Return the last offset of the first indexed batch at or after `position`; None if there is none."""
        index = bisect_left(self._entries, position, key=lambda entry: entry.position)
        return self._entries[index].last_offset if index < len(self._entries) else None

    def truncate(self, offset: int) -> None:
        """Truncate the index at `offset`, the new log end."""
        del self._entries[bisect_left(self._entries, offset, key=lambda entry: entry.last_offset) :]
        self._bytes_since = 0
