"""What has been collected of one partition and is not landed yet, and whether it is time to land it.

PURE: no tasks, no clock (`now` is an argument, the deadline is data). Holds Arrow tables and slices them, so
that a landing never grows beyond its limits; what becomes of a landing is the sink's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from math import inf
from typing import TYPE_CHECKING

import attrs

from sarameya_handlers.spark.options import Limits

if TYPE_CHECKING:
    import pyarrow as pa

COMBINE_AT = 256
"""So many pieces become one. An Arrow table of a single record costs kilobytes that `nbytes` does not tell."""


@attrs.frozen(slots=True, eq=False)
class Collected:
    """A run of one partition's records, `[from_offset, to_offset)`, in offset order."""

    table: pa.Table
    from_offset: int
    to_offset: int


@attrs.define(slots=True, eq=False)
class _Piece:
    """What one batch brought. `to_offset` is the position behind it, `arrived` when its first record came."""

    table: pa.Table
    to_offset: int
    arrived: float
    size: int


class PartitionBuffer:
    """Collects one claim's records from `position` on, within `limits`.

    `add` takes whole batches, also beyond the limits; `take` gives at most one landing's worth.
    """

    def __init__(self, limits: Limits, position: int) -> None:
        self._limits = limits
        self._position = position
        self._pieces: deque[_Piece] = deque()
        self._small = 0
        self._rows = 0
        self._bytes = 0

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def size_bytes(self) -> int:
        return self._bytes

    @property
    def deadline(self) -> float:
        """When the oldest record must begin to land; infinity while there is none."""
        return self._pieces[0].arrived + self._limits.max_age if self._pieces else inf

    def is_due(self, now: float) -> bool:
        """Whether rows, bytes or age have reached their limit."""
        return self._rows >= self._limits.max_rows or self._bytes >= self._limits.max_bytes or now >= self.deadline

    def add(self, table: pa.Table, to_offset: int, now: float) -> None:
        """Collect a batch's records; `to_offset` is the position behind them (`MessageBatch.next_offset`)."""
        piece = _Piece(table, to_offset, now, table.nbytes)
        self._pieces.append(piece)
        self._rows += table.num_rows
        self._bytes += piece.size
        self._small += 1
        if self._small == COMBINE_AT:
            self._combine()

    def take(self) -> Collected:
        """Remove the oldest records, as many as the limits allow, at least one."""
        tables: list[pa.Table] = []
        rows, size, from_offset = 0, 0, self._position
        while self._pieces:
            piece = self._pieces[0]
            fits = self._fits(piece, rows, size)
            if fits == 0 and rows == 0:
                fits = 1
            if fits < piece.table.num_rows:
                if fits:
                    tables.append(self._cut(piece, fits))
                break
            self._pieces.popleft()
            self._small = min(self._small, len(self._pieces))
            self._rows -= piece.table.num_rows
            self._bytes -= piece.size
            self._position = piece.to_offset
            rows += piece.table.num_rows
            size += piece.size
            tables.append(piece.table)
        return Collected(_concat(tables), from_offset, self._position)

    def _fits(self, piece: _Piece, rows: int, size: int) -> int:
        """How many of the piece's records still fit behind `rows` and `size`."""
        count: int = min(piece.table.num_rows, self._limits.max_rows - rows)
        room = self._limits.max_bytes - size
        if count == piece.table.num_rows and piece.size <= room:
            return count
        return bisect_right(range(1, count + 1), room, key=lambda n: piece.table.slice(0, n).nbytes)

    def _cut(self, piece: _Piece, count: int) -> pa.Table:
        """Take `count` records off the front of the oldest piece."""
        head, rest = piece.table.slice(0, count), piece.table.slice(count)
        size = rest.nbytes
        self._rows -= count
        self._bytes -= piece.size - size
        self._position = rest["offset"][0].as_py()
        piece.table, piece.size = rest, size
        return head

    def _combine(self) -> None:
        """Make one piece of the last `COMBINE_AT`; each record is copied once by this, however many follow."""
        last = [self._pieces.pop() for _ in range(COMBINE_AT)][::-1]
        table = _concat([piece.table for piece in last]).combine_chunks()
        self._bytes += table.nbytes - sum(piece.size for piece in last)
        self._pieces.append(_Piece(table, last[-1].to_offset, last[0].arrived, table.nbytes))
        self._small = 0


def _concat(tables: list[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(tables)
