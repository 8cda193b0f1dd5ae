"""Fakes of what a handler is given: a session that remembers marks, a claim fed by the test."""

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
) -> MessageBatch:
    """`count` messages from offset `first` on; `from_offset` may lie before them, `next_offset` further behind."""
    messages = [message(first + n, value=value, partition=partition) for n in range(count)]
    return MessageBatch(
        "orders",
        partition,
        messages,
        first + count if next_offset is None else next_offset,
        from_offset=first if from_offset is None else from_offset,
    )


class FakeSession:
    """Remembers what is marked: `marks` in order, `(topic, partition, next offset)` each; and the last metadata."""

    def __init__(self, *, group: str = "flights", log: tuple[int, int] = (0, 10**9)) -> None:
        self.group = group
        self.log = LogRange(*log)
        self.epoch_end: int | None = None
        self.marks: list[tuple[str, int, int]] = []
        self.metadata: dict[TopicPartition, str] = {}
        self.is_lost = False
        self.events: list[Event] = []

    def tell(self, event: Event) -> None:
        self.events.append(event)

    def mark_offset(self, topic: str, partition: int, offset: int, metadata: str = "") -> None:
        self.marks.append((topic, partition, offset))
        self.metadata[TopicPartition(topic, partition)] = metadata

    def mark_batch(self, marked: MessageBatch, metadata: str = "") -> None:
        self.marks.append((*marked.topic_partition, marked.next_offset))

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
    """A claim of partition `partition`; its batches are sent by the test, and end when the test says so."""

    def __init__(self, initial_offset: int = 0, *, partition: int = 0, budget: int = 2**40) -> None:
        self.topic = "orders"
        self.partition = partition
        self.initial_offset = initial_offset
        self.position = self.from_offset = initial_offset
        self.held = 0
        self.report = Report()
        self._budget = budget
        self._is_closed = False
        self._send, self._receive = trio.open_memory_channel[MessageBatch](math.inf)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def waiting(self) -> int:
        """Batches that have been sent and not been read."""
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
        for one in sent:
            self._send.send_nowait(one)
            self.position = self.from_offset = one.next_offset

    def end(self) -> None:
        self._is_closed = True
        self._send.close()

    def batches(self) -> trio.MemoryReceiveChannel[MessageBatch]:
        return self._receive


def claim_of(batches: Iterable[MessageBatch], *, initial_offset: int = 0, partition: int = 0) -> FakeClaim:
    """A claim that gives these batches and ends."""
    claim = FakeClaim(initial_offset, partition=partition)
    claim.send(*batches)
    claim.end()
    return claim
