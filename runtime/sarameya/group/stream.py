"""Several claims merged into one stream, as a handler's task reads it: message by message, or batch by batch.

Record batches are merged, not messages. Claims with messages form a queue: all messages of the first claim's batch are
read, then that claim moves to the end of the queue. Each claim keeps its own position. Claims are added and revoked
while the stream is read. A revoked claim is removed when the handler requests the next message: only then the earlier
messages are processed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from types import MappingProxyType

import trio

from sarameya.group.claim import Claim
from sarameya.group.delivery.time_slices import HandlerTime, TimeSlice
from sarameya.message_batch import MessageBatch
from sarameya.model import Message, TopicPartition


class Stream:
    """The claims that one task of a `StreamHandler` reads.

    Only that task may read it: each request for the next message confirms that the messages before are processed.

    Args:
        index: Number of the stream, from 0.
        on_revoked: Called with a revoked claim once the task has processed its messages.
        handler_time: Shared by all reading tasks of the member.
    """

    def __init__(
        self, index: int, on_revoked: Callable[[Claim], None], handler_time: HandlerTime | None = None
    ) -> None:
        self._index = index
        self._on_revoked = on_revoked
        self._claims: dict[TopicPartition, Claim] = {}
        self._is_sorted = True
        self._revoked: list[Claim] = []
        # Claims that may have messages, the next one first.
        self._queue: OrderedDict[Claim, None] = OrderedDict()
        # The claim whose batch is being read.
        self._current: Claim | None = None
        # The claim whose messages, or error, the handler is processing.
        self._held: Claim | None = None
        self._ended = False
        self._slice = TimeSlice(handler_time or HandlerTime())
        self._steps = 0
        self._arrival = trio.Event()

    @property
    def index(self) -> int:
        """Number of this stream among the handler's, from 0."""
        return self._index

    @property
    def claims(self) -> Mapping[TopicPartition, Claim]:
        """The claims that this stream has now, by partition in ascending order; may be empty."""
        if not self._is_sorted:  # sorted on demand only: there may be thousands
            self._claims, self._is_sorted = dict(sorted(self._claims.items())), True
        return MappingProxyType(self._claims)

    @property
    def _count(self) -> int:
        return len(self._claims)

    @property
    def has_ended(self) -> bool:
        """True once the stream has to end. For handlers that also wait for something else."""
        return self._ended

    def __str__(self) -> str:
        where = ", ".join(f"{tp} at {claim.position}" for tp, claim in self.claims.items())
        return f"stream {self._index} ({where or 'no partitions'})"

    def __aiter__(self) -> StreamMessages:
        return StreamMessages(self)

    def batches(self) -> StreamBatches:
        """Return an iterator of `MessageBatch`es of one partition each, as `Claim.batches` does."""
        return StreamBatches(self)

    async def _advance(self, by_columns: bool = False) -> Claim | None:
        """Return a claim with untaken messages. Waits for records, and for a time slice.

        Args:
            by_columns: The caller takes a whole batch at once.

        Returns:
            None once the session ends.
        """
        self._steps += 1
        time_slice = self._slice
        if self._current is not None:
            time_slice.left -= self._current._present.count_taken()
        time_slice.release_messages()
        now = trio.current_time()
        if self._held is not None:
            self._held._work.end(now)
        may_take = not time_slice.is_over(now)
        while not self._ended:
            while self._revoked:
                self._drop(self._revoked.pop(0))
            if not may_take:
                if self._held is not None:
                    self._held._note_waiting()
                may_take = await time_slice.wait()
            elif (claim := self._next(by_columns)) is not None:
                self._current = claim
                time_slice.hold_messages()
                return claim
            else:
                if self._arrival.is_set():
                    self._arrival = trio.Event()
                await self._arrival.wait()
                may_take = time_slice.start_at_once(trio.current_time())
        return None

    def _pace(self) -> object:
        """Return a value that changes with each message taken from any claim of the stream.

        A claim that only waits for its place in the queue is not stalled.
        """
        return self._current, self._current.position if self._current is not None else None, self._steps

    def _next(self, by_columns: bool) -> Claim | None:
        self._held = current = self._current
        if current is not None and not current._present.is_taken and current._advance_nowait(by_columns):
            return current
        if current is not None:
            current._note_waiting()
            if not current.is_paused:
                current._drop_taken()  # now, since the other claims in the queue are read first
        while self._queue:
            self._held = claim = next(iter(self._queue))
            self._queue.move_to_end(claim)  # even if this claim fails, the other claims are next
            if claim._advance_nowait(by_columns):
                return claim
            del self._queue[claim]
        self._held = self._current = None
        return None

    def _add(self, claim: Claim) -> None:
        self._claims[claim.topic_partition] = claim
        self._is_sorted = False
        claim._slice = self._slice
        claim._consumer.pace = self._pace
        claim._on_arrival = partial(self._arrived, claim)
        self._arrived(claim)

    def _revoke(self, claim: Claim) -> None:
        """Stop a claim. It is removed when the handler requests its next message, even within a batch."""
        if claim in self._revoked:
            return
        self._revoked.append(claim)
        claim._end()  # wakes a task that waits in `_advance`
        if self._current is not None and self._current in self._queue:
            self._queue.move_to_end(self._current, last=False)  # the rest of its batch is next
        self._current = None

    def _drop(self, claim: Claim) -> None:
        del self._claims[claim.topic_partition]
        self._queue.pop(claim, None)
        self._on_revoked(claim)

    def _end(self) -> None:
        """End the stream: its iterators end at their next step."""
        self._ended = True
        self._slice.interrupt()
        for claim in self._claims.values():
            claim._end()
        self._arrival.set()

    def _arrived(self, claim: Claim) -> None:
        self._queue.setdefault(claim)
        self._arrival.set()


class StreamMessages:
    """Messages of a stream, in order within each partition. Checkpoints are the same as in a claim."""

    __slots__ = ("_slice", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._slice = stream._slice

    def __aiter__(self) -> StreamMessages:
        return self

    async def __anext__(self) -> Message:
        claim = self._stream._current
        if claim is not None and perf_counter() < self._slice.ends:
            for message in claim._present.left:
                return message
        claim = await self._stream._advance()
        if claim is None:
            raise StopAsyncIteration
        return next(claim._present.left)


class StreamBatches:
    """Batches of a stream. `anext` is cancel-safe: a cancelled call takes nothing, and the next call continues."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __aiter__(self) -> StreamBatches:
        return self

    async def __anext__(self) -> MessageBatch:
        claim = await self._stream._advance(by_columns=True)
        if claim is None:
            raise StopAsyncIteration
        return claim._take_rest()
