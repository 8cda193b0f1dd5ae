"""A run of one partition's messages: rows to iterate over, or columns.

Either may be what was decoded (`protocol.records.decode`, `decode_columns`); the other is made of it when asked for.
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
    """Messages of one partition, held by field; a sequence of them that makes each when it is asked for.

    The five columns are equally long. What is one thing for all messages of a record batch stands once.
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
        """Several, at least one, as one: all of the same partition, timestamp type and leader epoch."""
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
    """A run of one partition's messages, in offset order, none hidden between them but what the log hides.

    `next_offset` is the position behind the batch: at least `messages[-1].offset + 1`, more where control
    records or compacted gaps follow. Marking `next_offset` is always right. `size_bytes` is the size
    on the wire. A batch is never empty.

    `from_offset` is the position before the batch: the `next_offset` of what its claim handed out before, or where the
    claim began. So the ranges [from_offset, next_offset) of a claim's batches are contiguous, and what the log hides
    (control records, aborted and compacted ones) lies inside of them. But where the position was moved meanwhile, since
    its log no longer had it (`OffsetReset`), it is where it was moved to: that it is not the `next_offset` before tells
    that records are missing. By default, for batches made by hand, the first message's offset.
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
        """Where it was read."""
        return TopicPartition(self.topic, self.partition)

    @property
    def first_offset(self) -> int:
        """The first message's offset; IndexError in a batch without messages."""
        return self.messages[0].offset

    @property
    def last_offset(self) -> int:
        """The last message's offset, which `next_offset` may be far beyond; IndexError without messages."""
        return self.messages[-1].offset

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def to_arrow(self) -> pyarrow.Table:
        """The batch as Arrow columns, named and typed as Spark's Kafka source names them.

        Columns: key binary, value binary, topic string, partition int32, offset int64,
        timestamp timestamp[us, UTC], timestampType int32, headers list<struct<key string, value binary>>.
        Raises ImportError if pyarrow is not installed (`pip install pyarrow`).
        """
        from sarameya.arrow import columns_to_arrow

        held = self.messages
        if isinstance(held, MessageColumns):
            return columns_to_arrow(
                self.topic,
                self.partition,
                held.offsets,
                held.timestamps,
                held.timestamp_type,
                held.keys,
                held.values,
                held.headers,
            )
        return columns_to_arrow(self.topic, self.partition, *zip(*map(_COLUMNS, held), strict=True))
