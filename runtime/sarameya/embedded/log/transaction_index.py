"""Open and aborted transactions of a log (KIP-98). Pure.

Open transactions determine the last stable offset: `read_committed` consumers read nothing at or after the first one.
Such consumers get the list of aborted transactions, and skip their records.

`PartitionLog` calls `add` for each transactional batch and `end` for each marker. Neither checks whether the producer
may start or end a transaction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import attrs


@attrs.frozen(slots=True)
class _Ended:
    producer_id: int
    first_offset: int
    marker_offset: int
    aborted: bool


class TransactionIndex:
    """Transactions of one log. A producer has at most one open transaction: from its first batch to its marker."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        """First offset of each open transaction, by producer id."""
        self._ended: list[_Ended] = []
        """Ended transactions in the order of their markers."""

    @property
    def open_producers(self) -> Sequence[int]:
        """Ids of producers with an open transaction, in the order in which the transactions started."""
        return sorted(self._open, key=self._open.__getitem__)

    def add(self, producer_id: int, offset: int) -> None:
        """Add a transactional batch at `offset`, the log's end. It starts a transaction unless one is open."""
        self._open.setdefault(producer_id, offset)

    def end(self, producer_id: int, marker_offset: int, *, aborted: bool) -> None:
        """Add a marker at `marker_offset`. Without an open transaction it has no effect."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is not None:
            self._ended.append(_Ended(producer_id, first_offset, marker_offset, aborted))

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the start of the first transaction that is open at the high watermark, else the high watermark."""
        first_offsets = list(self._open.values())
        for ended in reversed(self._ended):
            if ended.marker_offset < high_watermark:
                break
            first_offsets.append(ended.first_offset)
        return min(high_watermark, *first_offsets) if first_offsets else high_watermark

    def aborted(self, start: int, bound: int) -> list[tuple[int, int]]:
        """Return the aborted transactions whose records or marker are in [start, bound).

        Returns:
            Pairs of producer id and first offset.
        """
        index = bisect_left(self._ended, start, key=lambda ended: ended.marker_offset)
        return [
            (ended.producer_id, ended.first_offset)
            for ended in self._ended[index:]
            if ended.aborted and ended.first_offset < bound
        ]

    def truncate(self, offset: int) -> None:
        """Truncate at `offset`: later markers are removed, and the transactions that they ended are open again."""
        index = bisect_left(self._ended, offset, key=lambda ended: ended.marker_offset)
        for ended in reversed(self._ended[index:]):
            self._open[ended.producer_id] = ended.first_offset
        del self._ended[index:]
        self._open = {producer_id: first for producer_id, first in self._open.items() if first < offset}
