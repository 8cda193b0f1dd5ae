"""Fetched record batches of one partition that are not decoded yet, and their decoding. Pure.

`next_messages` decodes one record batch to messages, or only a part of it if it has very many. `next_columns` decodes a
few batches to the columns of one `MessageBatch`. The caller may change between the two at any time: a batch that is
decoded in part continues after the messages returned so far. A batch that cannot be decoded stays the next batch, so
the next call fails in the same way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from sarameya.model import Message, TopicPartition
from sarameya.protocol.fetch.fetch_cursor import Records
from sarameya.protocol.records.batch_codec import RawBatch, Slices, decode, decode_slices
from sarameya.protocol.records.column_reader import ColumnReader

_Read = TypeVar("_Read")

_SLICED_FROM = 1000
"""Record batches with more messages than this are decoded in parts."""


class Decoded(NamedTuple):
    """Result of one decoding step: messages (possibly none), and the batches and offsets that they cover."""

    messages: Sequence[Message]
    raws: Sequence[RawBatch]
    """The record batches that are completely decoded with this step."""
    next_offset: int
    """The position after the messages."""
    undecoded_bytes: int = 0
    """Bytes that stay in memory for the rest of a batch that is decoded in parts."""


class Undecoded:
    """Queue of the record batches of one claim, in offset order."""

    def __init__(self, partition: TopicPartition, *, check_crc: bool, limit: int) -> None:
        """Create an empty queue.

        Args:
            partition: The partition of the claim.
            check_crc: Compare checksums.
            limit: Bytes to which one record batch may be decompressed.
        """
        self._partition = partition
        self._check_crc = check_crc
        self._limit = limit
        self._columns = ColumnReader(partition, check_crc=check_crc, limit=limit)
        self._raws: deque[RawBatch] = deque()
        # The rest of the first batch, while it is decoded in parts.
        self._slices: Slices | None = None
        self._aborted: frozenset[int] = frozenset()

    def __len__(self) -> int:
        """Return the number of record batches."""
        return len(self._raws)

    def add(self, records: Records) -> None:
        """Add the record batches of the next fetch. The queue must be empty."""
        self._raws.extend(records.batches)
        self._aborted = records.aborted

    def put_back(self, raws: Sequence[RawBatch]) -> None:
        """Put the batches of the last step back to the front, since their messages were not processed."""
        self._raws.extendleft(reversed(raws))
        self._slices = None

    def clear(self) -> None:
        """Discard everything."""
        self._raws.clear()
        self._slices = None

    def next_messages(self, position: int) -> Decoded:
        """Decode the messages of the next record batch from `position` on. The queue must not be empty.

        Raises as `batch_codec.decode` does.
        """
        # Removed only after it is decoded: a batch that cannot be decoded stays the next batch.
        raw = self._raws[0]
        if self._slices is not None or ((raw.record_count or 0) > _SLICED_FROM and self._is_shown(raw)):
            return self._next_slice(raw, position)
        messages = self._decoded(decode, raw) if self._is_shown(raw) else []
        self._raws.popleft()
        return Decoded(_wanted(messages, position), (raw,), raw.next_offset)

    def next_columns(self, position: int) -> Decoded:
        """Decode the next record batches to columns, as many as `ColumnReader` reads together.

        The queue must not be empty. Raises as `batch_codec.decode` does.
        """
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
        """Decode the next part of a record batch that has very many messages."""
        if self._slices is None:
            self._slices = self._decoded(decode_slices, raw)
        slices, self._slices = self._slices, None  # after an error the batch is decoded from its start again
        messages = next(slices, [])
        if messages:
            self._slices = slices
            next_offset = max(messages[-1].offset + 1, position)
            return Decoded(_wanted(messages, position), (), next_offset, slices.size_bytes)
        self._raws.popleft()
        return Decoded((), (raw,), raw.next_offset)

    def _pop_hidden(self) -> list[RawBatch]:
        """Remove and return the batches at the front that no handler sees: control batches and aborted batches."""
        hidden: list[RawBatch] = []
        while self._raws and not self._is_shown(self._raws[0]):
            hidden.append(self._raws.popleft())
        return hidden

    def _decoded(self, read: Callable[..., _Read], raw: RawBatch) -> _Read:
        return read(raw, self._partition, check_crc=self._check_crc, limit=self._limit)

    def _is_shown(self, raw: RawBatch) -> bool:
        return not raw.is_control and raw.base_offset not in self._aborted


def _wanted(messages: list[Message], position: int) -> list[Message]:
    """Drop the messages before `position`. A broker sends whole batches, so the first may start before it."""
    if messages and messages[0].offset < position:
        return [message for message in messages if message.offset >= position]
    return messages
