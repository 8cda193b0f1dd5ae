"""A run of one partition's messages: rows to iterate over, or columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from sarameya.model import NO_LEADER_EPOCH, Message, TopicPartition

if TYPE_CHECKING:
    import pyarrow


@attrs.frozen(slots=True, order=False, eq=False)
class MessageBatch:
    """A run of one partition's messages, in offset order, none hidden between them but what the log hides.

    `next_offset` is the position behind the batch: at least `messages[-1].offset + 1`, more where control
    records or compacted gaps follow. Marking `next_offset` is always right. `size_bytes` is the size
    on the wire. A batch is never empty.
    """

    topic: str
    partition: int
    messages: Sequence[Message]
    next_offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    size_bytes: int = 0

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def first_offset(self) -> int:
        return self.messages[0].offset

    @property
    def last_offset(self) -> int:
        return self.messages[-1].offset

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def to_arrow(self) -> pyarrow.Table:
        """The batch as Arrow columns, named and typed as Spark's Kafka source names them.

        Columns: key binary, value binary, topic string, partition int32, offset int64,
        timestamp timestamp[us, UTC], timestampType int32, headers list<struct<key string, value binary>>.
        Raises ImportError if pyarrow is not installed (`pip install 'sarameya[spark]'`).
        """
        from sarameya.arrow import messages_to_arrow

        return messages_to_arrow(self.topic, self.partition, self.messages)
