"""Fakes of a handler's arguments: a session that records marks, and a claim whose batches come from the test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import trio

from sarameya import Event, Message, MessageBatch, Report, TimestampType, TopicPartition
from sarameya.model import LogRange


def message(offset: int, *, value: bytes | None = b"v", key: bytes | None = b"k", **more: object) -> Message:
    fields = {"topic": "orders", "partition": 0, "timestamp": 1_700_000_000_000 + offset, **more}
    return Message(offset=offset, timestamp_type=TimestampType.CREATE_TIME, key=key, value=value, **fields)


def batch(
    first: int,
    count: int,
    *,
    next_offset: int | None = None,
    partition: int = 0,
    value: bytes = b"v",
    from_offset: int | None = None,
    topic: str = "orders",
) -> MessageBatch:
    """Return a batch of `count` messages from offset `first` on.

    Args:
        first: the offset of the first message.
        count: the number of messages, with consecutive offsets.
        next_offset: the batch's end; None for the offset after the last message.
        partition: the partition.
        value: the value of all messages.
        from_offset: the batch's start, at or before `first`; None for `first`.
        topic: the topic.
    """
    messages = [message(first + n, value=value, partition=partition, topic=topic) for n in range(count)]
    return MessageBatch(
        topic,
        partition,
        messages,
        first + count if next_offset is None else next_offset,
        from_offset=first if from_offset is None else from_offset,
    )


class FakeSession:
    """A session that records `marks` in order, as `(topic, partition, next offset)`, and the last metadata of each."""

    def __init__(self, *, group: str = "flights", log: tuple[int, int] = (0, 10**9)) -> None:
        self.group = group
        self.log = LogRange(*log)
        self.epoch_end: int | None = None
        self.marks: list[tuple[str, int, int]] = []
        self.metadata: dict[TopicPartition, str] = {}
        self.is_lost = False
        self.events: list[Event] = []
        self.resets: list[tuple[str, int, int]] = []
        self.ends: list[str] = []
        """The reasons for which the handler ended the session."""

    def end(self, reason: str) -> None:
        self.ends.append(reason)

    def notify(self, event: Event) -> None:
        self.events.append(event)

    def mark_offset(self, topic: str, partition: int, offset: int, metadata: str = "") -> None:
        self.marks.append((topic, partition, offset))
        self.metadata[TopicPartition(topic, partition)] = metadata

    def reset_offset(self, topic: str, partition: int, offset: int, metadata: str = "") -> None:
        self.resets.append((topic, partition, offset))

    def mark_batch(self, marked: MessageBatch, metadata: str = "") -> None:
        self.mark_offset(*marked.topic_partition, marked.next_offset, metadata)

    cluster_id = "fake-cluster"

    def topic_id(self, topic: str) -> str:
        return "0123456789abcdef" * 2

    async def log_ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogRange]:
        await trio.lowlevel.checkpoint()
        return dict.fromkeys(partitions, self.log)

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        await trio.lowlevel.checkpoint()
        return dict.fromkeys(epochs, self.epoch_end)


class FakeClaim:
    """A claim to which the test sends batches with `send`, and which it stops with `end`."""

    def __init__(
        self, initial_offset: int = 0, *, partition: int = 0, budget: int = 2**40, topic: str = "orders"
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.initial_offset = initial_offset
        self.position = self.from_offset = initial_offset
        self.held = 0
        self.report = Report()
        self._budget = budget
        self._is_closed = False
        self._end = trio.Event()
        self._send, self._receive = trio.open_memory_channel[MessageBatch](math.inf)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def waiting(self) -> int:
        """Number of batches that were sent and not yet read."""
        return self._receive.statistics().current_buffer_used

    @property
    def is_read(self) -> bool:
        """True if a task waits for the next batch."""
        return self._receive.statistics().tasks_waiting_receive > 0

    @property
    def has_ended(self) -> bool:
        return self._is_closed and not self.waiting

    @property
    def has_room(self) -> bool:
        return self.held < self._budget

    def hold(self, size: int) -> None:
        assert size >= 0
        self.held += size

    def release(self, size: int) -> None:
        assert 0 <= size <= self.held
        self.held -= size

    def send(self, *sent: MessageBatch) -> None:
        for each in sent:
            self._send.send_nowait(each)
            self.position = self.from_offset = each.next_offset

    def end(self) -> None:
        self._is_closed = True
        self._end.set()
        self._send.close()

    async def wait_ended(self) -> None:
        await self._end.wait()

    def batches(self) -> trio.MemoryReceiveChannel[MessageBatch]:
        return self._receive


def claim_of(batches: Iterable[MessageBatch], *, initial_offset: int = 0, partition: int = 0) -> FakeClaim:
    """Return a claim that yields these batches and stops."""
    claim = FakeClaim(initial_offset, partition=partition)
    claim.send(*batches)
    claim.end()
    return claim
