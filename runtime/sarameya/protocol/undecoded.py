"""The record batches of one partition that were fetched and not decoded yet, and what they become. Pure.

One record batch at a time becomes messages, or a part of one that has very many; or a few become the columns of one
batch. Which of the two is asked for may change at any time: a batch begun in parts goes on, either way, behind what was
handed out of it. What cannot be decoded stays the next one, so that it fails again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from sarameya.model import Message, TopicPartition
from sarameya.protocol.column_reader import ColumnReader
from sarameya.protocol.fetch_cursor import Records
from sarameya.protocol.records import RawBatch, Slices, decode, decode_slices

_Read = TypeVar("_Read")

_SLICED_FROM = 1000
"""Record batches of more messages than this are not decoded all at once."""


class Decoded(NamedTuple):
    """What comes next: these messages, which may be none."""

    messages: Sequence[Message]
    raws: Sequence[RawBatch]
    """What has been dealt with by that."""
    behind: int
    """The position behind them."""
    beside: int = 0
    """Bytes that are kept beside them for those that follow."""


class Undecoded:
    """What one claim has to decode, in order. `limit` bounds the decompressed size of a record batch, in bytes."""

    def __init__(self, partition: TopicPartition, *, check_crc: bool, limit: int) -> None:
        self._partition = partition
        self._check_crc = check_crc
        self._limit = limit
        self._columns = ColumnReader(partition, check_crc=check_crc, limit=limit)
        self._raws: deque[RawBatch] = deque()
        # Of the first of them, if it has very many messages.
        self._slices: Slices | None = None
        self._aborted: frozenset[int] = frozenset()

    def __len__(self) -> int:
        """How many record batches."""
        return len(self._raws)

    def add(self, records: Records) -> None:
        """What was fetched next; there must be nothing left of what was before."""
        self._raws.extend(records.batches)
        self._aborted = records.aborted

    def put_back(self, raws: Sequence[RawBatch]) -> None:
        """What was decoded last is not dealt with after all: it stays the next, and so do these."""
        self._raws.extendleft(reversed(raws))
        self._slices = None

    def clear(self) -> None:
        """None of it is wanted any more."""
        self._raws.clear()
        self._slices = None

    def next_messages(self, position: int) -> Decoded:
        """The next record batch's messages from `position` on; there must be one. Raises as `decode`."""
        # Taken out only once it is decoded: a batch that cannot be decoded stays the next one.
        raw = self._raws[0]
        if self._slices is not None or ((raw.record_count or 0) > _SLICED_FROM and self._is_shown(raw)):
            return self._next_slice(raw, position)
        messages = self._decoded(decode, raw) if self._is_shown(raw) else []
        self._raws.popleft()
        return Decoded(_wanted(messages, position), (raw,), raw.next_offset)

    def next_columns(self, position: int) -> Decoded:
        """The columns of the next record batches, as many as the reader reads together; there must be one batch."""
        raws = self._pop_hidden()
        columns: Sequence[Message] = ()
        if not raws:
            found, count = self._columns.read(raw for raw in self._raws if self._is_shown(raw))
            for _ in range(count):
                raws += self._pop_hidden()
                raws.append(self._raws.popleft())
            columns = found
            if found and found.offsets[0] < position:
                columns = found[bisect_left(found.offsets, position) :]
        self._slices = None
        return Decoded(columns, raws, raws[-1].next_offset)

    def _next_slice(self, raw: RawBatch, position: int) -> Decoded:
        """The next messages of a record batch that has very many."""
        if self._slices is None:
            self._slices = self._decoded(decode_slices, raw)
        slices, self._slices = self._slices, None  # where anything is wrong it is begun anew, up to here
        messages = next(slices, [])
        if messages:
            self._slices = slices
            behind = max(messages[-1].offset + 1, position)
            return Decoded(_wanted(messages, position), (), behind, slices.size_bytes)
        self._raws.popleft()
        return Decoded((), (raw,), raw.next_offset)

    def _pop_hidden(self) -> list[RawBatch]:
        """The next record batches, as long as they are not shown."""
        hidden: list[RawBatch] = []
        while self._raws and not self._is_shown(self._raws[0]):
            hidden.append(self._raws.popleft())
        return hidden

    def _decoded(self, read: Callable[..., _Read], raw: RawBatch) -> _Read:
        return read(raw, self._partition, check_crc=self._check_crc, limit=self._limit)

    def _is_shown(self, raw: RawBatch) -> bool:
        return not raw.is_control and raw.base_offset not in self._aborted


def _wanted(messages: list[Message], position: int) -> list[Message]:
    """The broker begins at the batch that holds the position, not at the position itself."""
    if messages and messages[0].offset < position:
        return [message for message in messages if message.offset >= position]
    return messages
