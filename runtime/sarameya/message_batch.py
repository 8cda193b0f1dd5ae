"""Batches of one partition's messages, by row or by column.

Records are decoded into either form (`decode` and `decode_columns` of `protocol.records.batch_codec`). The other form
is created from it on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, overload

import attrs

from sarameya.model import NO_LEADER_EPOCH, Headers, Message, TimestampType, TopicPartition

if TYPE_CHECKING:
    import pyarrow

_COLUMNS = attrgetter("offset", "timestamp", "timestamp_type", "key", "value", "headers")


@attrs.frozen(slots=True, eq=False, kw_only=True)
class MessageColumns(Sequence[Message]):
    """Messages of one partition, stored by column: a sequence that creates each message on access.

    The five columns have the same length. Fields with one value for the whole record batch are stored once.
    """

    topic: str
    partition: int
    timestamp_type: TimestampType
    leader_epoch: int
    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers]

    @classmethod
    def joined(cls, parts: Sequence[MessageColumns]) -> MessageColumns:
        """Join `parts` (at least one), which have the same partition, timestamp type and leader epoch."""
        if len(parts) == 1:
            return parts[0]
        return attrs.evolve(
            parts[0],
            offsets=tuple(chain.from_iterable(part.offsets for part in parts)),
            timestamps=tuple(chain.from_iterable(part.timestamps for part in parts)),
            keys=tuple(chain.from_iterable(part.keys for part in parts)),
            values=tuple(chain.from_iterable(part.values for part in parts)),
            headers=tuple(chain.from_iterable(part.headers for part in parts)),
        )

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Message]:
        return map(
            Message,
            repeat(self.topic),
            repeat(self.partition),
            self.offsets,
            self.timestamps,
            repeat(self.timestamp_type),
            self.keys,
            self.values,
            self.headers,
            repeat(self.leader_epoch),
        )

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> MessageColumns: ...
    def __getitem__(self, index: int | slice) -> Message | MessageColumns:
        if isinstance(index, slice):
            return attrs.evolve(
                self,
                offsets=self.offsets[index],
                timestamps=self.timestamps[index],
                keys=self.keys[index],
                values=self.values[index],
                headers=self.headers[index],
            )
        return Message(
            self.topic,
            self.partition,
            self.offsets[index],
            self.timestamps[index],
            self.timestamp_type,
            self.keys[index],
            self.values[index],
            self.headers[index],
            self.leader_epoch,
        )


@attrs.frozen(slots=True, order=False, eq=False)
class MessageBatch:
    """Consecutive messages of one partition, in offset order. Never empty.

    No record is missing, except those that no consumer gets: control records, aborted records and compacted records.

    `next_offset` is the position after the batch: at least `messages[-1].offset + 1`, more if control records or
    compacted gaps follow. A mark at `next_offset` is always correct. `size_bytes` is the size on the wire.

    `from_offset` is the position before the batch: the `next_offset` of the claim's previous batch, or the claim's
    start offset. The ranges [from_offset, next_offset) of a claim's batches are therefore contiguous, and include the
    offsets of the records that no consumer gets. If the position was reset because the log does not have it
    (`OffsetReset`), `from_offset` is the new position: it differs from the previous `next_offset`, which shows that
    records are missing. The default, for batches that tests create, is the first message's offset.
    """

    topic: str
    partition: int
    messages: Sequence[Message]
    next_offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    size_bytes: int = 0
    from_offset: int = attrs.field()

    @from_offset.default
    def _first(self) -> int:
        return self.messages[0].offset if self.messages else self.next_offset

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def first_offset(self) -> int:
        """Offset of the first message. Raises IndexError if the batch has no messages."""
        return self.messages[0].offset

    @property
    def last_offset(self) -> int:
        """Offset of the last message; `next_offset` may be much larger. Raises IndexError if there are no messages."""
        return self.messages[-1].offset

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def to_arrow(self) -> pyarrow.Table:
        """Return the batch as Arrow columns, with the names and types of Spark's Kafka source.

        Columns: key binary, value binary, topic string, partition int32, offset int64, timestamp timestamp[us, UTC],
        timestampType int32, headers list<struct<key string, value binary>>.

        Raises:
            ImportError: pyarrow is not installed (`pip install pyarrow`).
        """
        from sarameya.arrow import columns_to_arrow

        messages = self.messages
        if isinstance(messages, MessageColumns):
            return columns_to_arrow(
                self.topic,
                self.partition,
                messages.offsets,
                messages.timestamps,
                messages.timestamp_type,
                messages.keys,
                messages.values,
                messages.headers,
            )
        return columns_to_arrow(self.topic, self.partition, *zip(*map(_COLUMNS, messages), strict=True))
