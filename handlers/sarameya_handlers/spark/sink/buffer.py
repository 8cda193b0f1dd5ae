"""Buffer of one partition: its collected records, and the time when they must be flushed.

Pure: no tasks, no clock (`now` is an argument, the deadline is data). The buffer holds Arrow tables and slices them, so
that a batch never exceeds its limits (unless a single record does). The sink decides what happens to a batch.
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
"""Number of pieces that are combined into one. An Arrow table of one record takes kilobytes that `nbytes` omits."""

EARLY_SHARE = 0.5
"""Share of a limit above which records may be flushed early, together with other partitions."""


@attrs.frozen(slots=True, eq=False)
class CollectedBatch:
    """A run of one partition's records, `[from_offset, to_offset)`, in offset order."""

    table: pa.Table | None
    """None if the records were deleted, or became dead letters. Without rows if no offset of the run has a record: the
    rest of a batch whose records another owner has landed may be control records."""
    from_offset: int
    to_offset: int
    leader_epoch: int = UNKNOWN_EPOCH
    """Leader epoch of the last record."""
    dead_letters: int = 0
    """Number of records of the run that are not in `table`, since they became dead letters."""

    @property
    def rows(self) -> int:
        return 0 if self.table is None else int(self.table.num_rows)

    @property
    def size_bytes(self) -> int:
        return 0 if self.table is None else int(self.table.nbytes)

    def since(self, offset: int) -> CollectedBatch | None:
        """Return the part from `offset` on; None if there is none."""
        if offset >= self.to_offset:
            return None
        if offset <= self.from_offset or self.table is None:
            return attrs.evolve(self, from_offset=max(offset, self.from_offset))
        assert not self.dead_letters, "it is not known which of them are in the part"
        return attrs.evolve(self, table=_since(self.table, offset), from_offset=offset)


@attrs.define(slots=True, eq=False)
class _Piece:
    """Records of one fetched batch, or of several after `_combine`.

    Attributes:
        to_offset: The position after them.
        arrived: Arrival time of the first record.
    """

    table: pa.Table
    to_offset: int
    arrived: float
    size: int
    leader_epoch: int


@attrs.frozen(slots=True, eq=False)
class _Gap:
    """Missing records up to `to_offset`: they were deleted from the log before they could be read."""

    to_offset: int
    arrived: float


class PartitionBuffer:
    """Collects one claim's records from `position` on, and returns them in batches within `limits`.

    `add` takes whole fetched batches, even beyond the limits; `take` returns at most one batch.
    """

    def __init__(self, limits: Limits, position: int, sizing: Sizing | None = None) -> None:
        """Create an empty buffer. `sizing`, if given, limits the bytes instead of `limits.max_bytes`."""
        self._limits = limits
        self._sizing = sizing or Sizing(limits.max_bytes)
        # `_read`: expected start of the next fetched batch. `_end`: end of the records that are collected here, or that
        # another owner has landed. `_position`: end of the records that were taken.
        self._read = self._end = self._position = position
        self._pieces: deque[_Piece | _Gap] = deque()
        # Number of pieces at the end that are not combined yet.
        self._uncombined = 0
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
        """Start of the next batch: everything before it has been taken."""
        return self._position

    @property
    def read_to(self) -> int:
        """Expected start of the next fetched batch."""
        return self._read

    @property
    def is_full(self) -> bool:
        """True if rows or bytes have reached their limit."""
        return self._rows >= self._limits.max_rows or self._bytes >= self._sizing.bytes

    @property
    def deadline(self) -> float:
        """Time at which the oldest record must be flushed; infinity if there is none."""
        return self._pieces[0].arrived + self._limits.max_age if self._pieces else inf

    def is_due(self, now: float) -> bool:
        """Return whether rows, bytes or age have reached their limit."""
        return self.is_full or now >= self.deadline

    def may_flush_early(self, now: float) -> bool:
        """Return whether rows, bytes or age have reached EARLY_SHARE of their limit."""
        limits = self._limits
        return bool(self._pieces) and (
            self._rows >= EARLY_SHARE * limits.max_rows
            or self._bytes >= EARLY_SHARE * self._sizing.bytes
            or now >= self.deadline - (1 - EARLY_SHARE) * limits.max_age
        )

    def add(
        self, table: pa.Table, from_offset: int, to_offset: int, now: float, leader_epoch: int = UNKNOWN_EPOCH
    ) -> None:
        """Collect a fetched batch: all records of `[from_offset, to_offset)` that exist.

        Records that other owners have landed are left out. If the batch starts after the end of the previous one, the
        records between are missing, and `take` returns them as a gap.

        Raises:
            LostRecordsError: The batch starts before the end of the previous one: the log was truncated and written
                again.
        """
        self._advance_read(from_offset, now)
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
        self._uncombined += 1
        if self._uncombined == COMBINE_AT:
            self._combine()

    def note_gap(self, offset: int, now: float) -> bool:
        """Continue reading at `offset`. Return whether records before it are missing.

        If so, `take` returns them as a gap.

        Raises:
            LostRecordsError: As in `add`.
        """
        before = len(self._pieces)
        self._advance_read(offset, now)
        return len(self._pieces) > before

    def _advance_read(self, from_offset: int, now: float) -> None:
        """Continue reading at `from_offset`. Collect a gap if records before it are missing."""
        if from_offset < self._read:
            raise LostRecordsError(
                f"offset {from_offset} comes after {self._read}: the log was truncated below records that had been "
                "read, and some of them may have landed"
            )
        self._read = from_offset
        if from_offset > self._end:
            self._pieces.append(_Gap(from_offset, now))
            self._end = from_offset

    def trim(self, offset: int) -> None:
        """Remove everything before `offset`: it has landed, by this owner or another."""
        if offset <= self._position:
            return
        while self._pieces and self._pieces[0].to_offset <= offset:
            self._drop(self._pieces.popleft())
        self._uncombined = min(self._uncombined, len(self._pieces))
        if self._pieces and isinstance(piece := self._pieces[0], _Piece):
            self._replace(piece, _since(piece.table, offset))
        self._position = offset
        self._end = max(self._end, offset)

    def take(self) -> CollectedBatch:
        """Remove and return the oldest batch.

        It is a gap if records are missing there. Otherwise it has as many records as the limits allow, and at least one
        unless no offset up to the next gap, or to the buffer's end, has a record.
        """
        if self._pieces and isinstance(missing := self._pieces[0], _Gap):
            self._pieces.popleft()
            from_offset, self._position = self._position, missing.to_offset
            return CollectedBatch(None, from_offset, missing.to_offset)
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
            self._uncombined = min(self._uncombined, len(self._pieces))
            rows += piece.table.num_rows
            size += piece.size
            self._drop(piece)
            self._position = piece.to_offset
            tables.append(piece.table)
            epoch = piece.leader_epoch
        return CollectedBatch(_concat(tables), from_offset, self._position, epoch)

    def _fits(self, piece: _Piece, rows: int, size: int) -> int:
        """Return the number of the piece's records that fit into a batch which has `rows` and `size` already."""
        count: int = min(piece.table.num_rows, self._limits.max_rows - rows)
        room = self._sizing.bytes - size
        if count == piece.table.num_rows and piece.size <= room:
            return count
        return bisect_right(range(1, count + 1), room, key=lambda n: piece.table.slice(0, n).nbytes)

    def _cut(self, piece: _Piece, count: int) -> pa.Table:
        """Remove `count` records from the front of the oldest piece."""
        head, rest = piece.table.slice(0, count), piece.table.slice(count)
        self._replace(piece, rest)
        self._position = rest["offset"][0].as_py()
        return head

    def _replace(self, piece: _Piece, rest: pa.Table) -> None:
        self._drop(piece)
        piece.table, piece.size = rest, rest.nbytes
        self._rows += rest.num_rows
        self._bytes += piece.size

    def _drop(self, piece: _Piece | _Gap) -> None:
        if isinstance(piece, _Piece):
            self._rows -= piece.table.num_rows
            self._bytes -= piece.size

    def _combine(self) -> None:
        """Combine the last pieces into one. Each record is copied only once, even if many more follow."""
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
        self._uncombined = 0


def _since(table: pa.Table, offset: int) -> pa.Table:
    column = table["offset"]
    return table.slice(bisect_left(range(len(column)), offset, key=lambda row: column[row].as_py()))


def _concat(tables: list[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(tables)
