"""What a log knows of transactions from its batches' headers and its markers (KIP-98). Pure.

Which are open, so that nothing behind the first of them is shown to who reads committed records only (the last stable
offset), and which were aborted, so that such a reader can leave their records out. One `TransactionIndex` a log, which
tells it of each batch; who may begin and end transactions is the business of others.
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
    """A producer has one transaction at a time in a log: from its first batch there to a marker."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        """The first offset, by producer id."""
        self._ended: list[_Ended] = []
        """In the order of their markers."""

    @property
    def open_producers(self) -> Sequence[int]:
        """The producers whose transactions are open, the first to have begun first."""
        return sorted(self._open, key=self._open.__getitem__)

    def add(self, producer_id: int, offset: int) -> None:
        """A transactional batch of this producer begins at `offset`, the log's end."""
        self._open.setdefault(producer_id, offset)

    def end(self, producer_id: int, marker_offset: int, *, aborted: bool) -> None:
        """The producer's marker stands at `marker_offset`. Where nothing was written there is nothing to end."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is not None:
            self._ended.append(_Ended(producer_id, first_offset, marker_offset, aborted))

    def last_stable_offset(self, high_watermark: int) -> int:
        """Where the first transaction begins whose end does not stand before the high watermark; else that."""
        undecided = list(self._open.values())
        for ended in reversed(self._ended):
            if ended.marker_offset < high_watermark:
                break
            undecided.append(ended.first_offset)
        return min(high_watermark, *undecided) if undecided else high_watermark

    def aborted(self, start: int, bound: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions with records or their marker in [start, bound)."""
        place = bisect_left(self._ended, start, key=lambda ended: ended.marker_offset)
        return [
            (ended.producer_id, ended.first_offset)
            for ended in self._ended[place:]
            if ended.aborted and ended.first_offset < bound
        ]

    def cut_off(self, offset: int) -> None:
        """The log ends at `offset` now: markers from there on are gone, and what they ended is open again."""
        place = bisect_left(self._ended, offset, key=lambda ended: ended.marker_offset)
        for ended in reversed(self._ended[place:]):
            self._open[ended.producer_id] = ended.first_offset
        del self._ended[place:]
        self._open = {producer_id: first for producer_id, first in self._open.items() if first < offset}
