"""What has been collected of one partition and is not landed yet, and whether it is time to land it.

PURE: no tasks, no clock (`now` is an argument, the deadline is data). Holds Arrow tables and slices them, so
that a landing never grows beyond its limits; what becomes of a landing is the sink's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from math import inf
from typing import TYPE_CHECKING

import attrs

from sarameya_handlers.landing.errors import LostRecordsError
from sarameya_handlers.landing.links import UNKNOWN_EPOCH
from sarameya_handlers.landing.sizing import Sizing
from sarameya_handlers.spark.options import Limits

if TYPE_CHECKING:
    import pyarrow as pa

COMBINE_AT = 256
"""So many pieces become one. An Arrow table of a single record costs kilobytes that `nbytes` does not tell."""

RIPE = 0.5
"""Of a limit: what has come so far lands along with others that are due."""


@attrs.frozen(slots=True, eq=False)
class Collected:
    """A run of one partition's records, `[from_offset, to_offset)`, in offset order."""

    table: pa.Table | None
    """None for a run of which nothing was there to be read."""
    from_offset: int
    to_offset: int
    leader_epoch: int = UNKNOWN_EPOCH
    """Of the last record."""

    @property
    def rows(self) -> int:
        return 0 if self.table is None else int(self.table.num_rows)

    @property
    def size_bytes(self) -> int:
        return 0 if self.table is None else int(self.table.nbytes)

    def since(self, offset: int) -> Collected | None:
        """What of it lies at `offset` or behind it; None if nothing does."""
        if offset >= self.to_offset:
            return None
        if offset <= self.from_offset or self.table is None:
            return attrs.evolve(self, from_offset=max(offset, self.from_offset))
        return attrs.evolve(self, table=_since(self.table, offset), from_offset=offset)


@attrs.define(slots=True, eq=False)
class _Piece:
    """What one batch brought. `to_offset` is the position behind it, `arrived` when its first record came."""

    table: pa.Table
    to_offset: int
    arrived: float
    size: int
    leader_epoch: int


@attrs.frozen(slots=True, eq=False)
class _Missing:
    """Records up to here were gone from the log before they could be read."""

    to_offset: int
    arrived: float


class PartitionBuffer:
    """Collects one claim's records from `position` on, within `limits`.

    `add` takes whole batches, also beyond the limits; `take` gives at most one landing's worth.
    """

    def __init__(self, limits: Limits, position: int, sizing: Sizing | None = None) -> None:
        """`sizing` rules the bytes, in place of `limits.max_bytes`."""
        self._limits = limits
        self._sizing = sizing or Sizing(limits.max_bytes)
        # Where the claim is read on; up to where records are here, or with others; up to where they were taken.
        self._read = self._end = self._position = position
        self._pieces: deque[_Piece | _Missing] = deque()
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
    def is_empty(self) -> bool:
        return not self._pieces

    @property
    def position(self) -> int:
        """Where the next landing begins: all before it has been taken."""
        return self._position

    @property
    def read_to(self) -> int:
        """Where the next batch is expected to begin."""
        return self._read

    @property
    def is_full(self) -> bool:
        """Whether rows or bytes have reached their limit."""
        return self._rows >= self._limits.max_rows or self._bytes >= self._sizing.bytes

    @property
    def deadline(self) -> float:
        """When the oldest record must begin to land; infinity while there is none."""
        return self._pieces[0].arrived + self._limits.max_age if self._pieces else inf

    def is_due(self, now: float) -> bool:
        """Whether rows, bytes or age have reached their limit."""
        return self.is_full or now >= self.deadline

    def is_ripe(self, now: float) -> bool:
        """Whether they have come halfway."""
        limits = self._limits
        return bool(self._pieces) and (
            self._rows >= RIPE * limits.max_rows
            or self._bytes >= RIPE * self._sizing.bytes
            or now >= self.deadline - (1 - RIPE) * limits.max_age
        )

    def add(
        self, table: pa.Table, from_offset: int, to_offset: int, now: float, leader_epoch: int = UNKNOWN_EPOCH
    ) -> None:
        """Collect a batch's records: all that there is to be read of `[from_offset, to_offset)`.

        What others have landed is left out. Where a batch begins behind the one before it, what lies between is
        missing, and told by `take`. Raises LostRecordsError where it begins before that: the log was cut, and written
        anew.
        """
        self._read_on(from_offset, now)
        self._read = to_offset
        if to_offset <= self._end:
            return
        if from_offset < self._end:
            table = _since(table, self._end)
        self._end = to_offset
        size = table.nbytes
        self._pieces.append(_Piece(table, to_offset, now, size, leader_epoch))
        self._rows += table.num_rows
        self._bytes += size
        self._small += 1
        if self._small == COMBINE_AT:
            self._combine()

    def miss(self, offset: int, now: float) -> bool:
        """Reading goes on at `offset`: whether what lies before it, and has not been collected, is missing. It is told
        by `take`. Raises LostRecordsError as `add`."""
        before = len(self._pieces)
        self._read_on(offset, now)
        return len(self._pieces) > before

    def _read_on(self, from_offset: int, now: float) -> None:
        if from_offset < self._read:
            raise LostRecordsError(
                f"offset {from_offset} comes after {self._read}: the log was cut below what had been read of it, "
                "and some of that may have landed"
            )
        self._read = from_offset
        if from_offset > self._end:
            self._pieces.append(_Missing(from_offset, now))
            self._end = from_offset

    def trim(self, offset: int) -> None:
        """Forget all before `offset`: somebody else has landed it."""
        if offset <= self._position:
            return
        while self._pieces and self._pieces[0].to_offset <= offset:
            self._drop(self._pieces.popleft())
        self._small = min(self._small, len(self._pieces))
        if self._pieces and isinstance(piece := self._pieces[0], _Piece):
            self._replace(piece, _since(piece.table, offset))
        self._position = offset
        self._end = max(self._end, offset)

    def take(self) -> Collected:
        """Remove the oldest records, as many as the limits allow, at least one; or what is missing before them."""
        if self._pieces and isinstance(missing := self._pieces[0], _Missing):
            self._pieces.popleft()
            from_offset, self._position = self._position, missing.to_offset
            return Collected(None, from_offset, missing.to_offset)
        tables: list[pa.Table] = []
        rows, size, from_offset, epoch = 0, 0, self._position, UNKNOWN_EPOCH
        while self._pieces and isinstance(piece := self._pieces[0], _Piece):
            fits = self._fits(piece, rows, size)
            if fits == 0 and rows == 0:
                fits = 1
            if fits < piece.table.num_rows:
                if fits:
                    tables.append(self._cut(piece, fits))
                    epoch = piece.leader_epoch
                break
            self._pieces.popleft()
            self._small = min(self._small, len(self._pieces))
            rows += piece.table.num_rows
            size += piece.size
            self._drop(piece)
            self._position = piece.to_offset
            tables.append(piece.table)
            epoch = piece.leader_epoch
        return Collected(_concat(tables), from_offset, self._position, epoch)

    def _fits(self, piece: _Piece, rows: int, size: int) -> int:
        """How many of the piece's records still fit behind `rows` and `size`."""
        count: int = min(piece.table.num_rows, self._limits.max_rows - rows)
        room = self._sizing.bytes - size
        if count == piece.table.num_rows and piece.size <= room:
            return count
        return bisect_right(range(1, count + 1), room, key=lambda n: piece.table.slice(0, n).nbytes)

    def _cut(self, piece: _Piece, count: int) -> pa.Table:
        """Take `count` records off the front of the oldest piece."""
        head, rest = piece.table.slice(0, count), piece.table.slice(count)
        self._replace(piece, rest)
        self._position = rest["offset"][0].as_py()
        return head

    def _replace(self, piece: _Piece, rest: pa.Table) -> None:
        self._drop(piece)
        piece.table, piece.size = rest, rest.nbytes
        self._rows += rest.num_rows
        self._bytes += piece.size

    def _drop(self, piece: _Piece | _Missing) -> None:
        if isinstance(piece, _Piece):
            self._rows -= piece.table.num_rows
            self._bytes -= piece.size

    def _combine(self) -> None:
        """Make one piece of the last ones; each record is copied once by this, however many follow."""
        last: list[_Piece] = []
        while len(last) < COMBINE_AT and isinstance(piece := self._pieces[-1], _Piece):
            last.append(piece)
            self._pieces.pop()
            if not self._pieces:
                break
        last.reverse()
        table = _concat([piece.table for piece in last]).combine_chunks()
        self._bytes += table.nbytes - sum(piece.size for piece in last)
        newest = last[-1]
        self._pieces.append(_Piece(table, newest.to_offset, last[0].arrived, table.nbytes, newest.leader_epoch))
        self._small = 0


def _since(table: pa.Table, offset: int) -> pa.Table:
    column = table["offset"]
    return table.slice(bisect_left(range(len(column)), offset, key=lambda row: column[row].as_py()))


def _concat(tables: list[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(tables)
