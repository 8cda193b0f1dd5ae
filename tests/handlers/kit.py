"""Fakes of what a handler is given: a session that remembers marks, a claim fed by the test."""

from __future__ import annotations

import math
from collections.abc import Iterable

import trio

from sarameya import Message, MessageBatch, TimestampType, TopicPartition


def message(offset: int, *, value: bytes | None = b"v", key: bytes | None = b"k", **more: object) -> Message:
    fields = {"topic": "orders", "partition": 0, "timestamp": 1_700_000_000_000 + offset, **more}
    return Message(offset=offset, timestamp_type=TimestampType.CREATE_TIME, key=key, value=value, **fields)


def batch(
    first: int, count: int, *, next_offset: int | None = None, partition: int = 0, value: bytes = b"v"
) -> MessageBatch:
    """`count` messages from offset `first` on; `next_offset` behind them may lie further."""
    messages = [message(first + n, value=value, partition=partition) for n in range(count)]
    return MessageBatch("orders", partition, messages, first + count if next_offset is None else next_offset)


class FakeSession:
    """Remembers what is marked: `marks` in order, `(topic, partition, next offset)` each."""

    def __init__(self) -> None:
        self.marks: list[tuple[str, int, int]] = []
        self.is_lost = False

    def mark_offset(self, topic: str, partition: int, offset: int, metadata: str = "") -> None:
        self.marks.append((topic, partition, offset))

    def mark_batch(self, marked: MessageBatch, metadata: str = "") -> None:
        self.marks.append((*marked.topic_partition, marked.next_offset))


class FakeClaim:
    """A claim of partition `partition`; its batches are sent by the test, and end when the test says so."""

    def __init__(self, initial_offset: int = 0, *, partition: int = 0) -> None:
        self.topic = "orders"
        self.partition = partition
        self.initial_offset = initial_offset
        self._send, self._receive = trio.open_memory_channel[MessageBatch](math.inf)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def waiting(self) -> int:
        """Batches that have been sent and not been read."""
        return self._receive.statistics().current_buffer_used

    def send(self, *sent: MessageBatch) -> None:
        for one in sent:
            self._send.send_nowait(one)

    def end(self) -> None:
        self._send.close()

    def batches(self) -> trio.MemoryReceiveChannel[MessageBatch]:
        return self._receive


def claim_of(batches: Iterable[MessageBatch], *, initial_offset: int = 0) -> FakeClaim:
    """A claim that gives these batches and ends."""
    claim = FakeClaim(initial_offset)
    claim.send(*batches)
    claim.end()
    return claim
