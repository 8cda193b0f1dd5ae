"""Several claims as one feed, as a handler's task reads it: message by message, or batch by batch.

What is merged are record batches, not messages: the claims that have something stand in a line, the first one's batch
is handed out to its end, and it goes to the end of the line. Each claim keeps its own place in its log. Claims come
and go while the feed is read; one that goes has gone once the handler has come back for more, since only then is what
it had of it dealt with.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from types import MappingProxyType

import trio

from sarameya.group.claim import Claim
from sarameya.group.time_slices import HandlerTime, TimeSlice
from sarameya.message_batch import MessageBatch
from sarameya.model import Message, TopicPartition


class Stream:
    """The claims that one task of a `StreamHandler` reads. For that one task: it tells by asking for more that it is
    done with what it was given.

    `on_gone` is told of a claim that was given up when the task has come back.
    """

    def __init__(self, index: int, on_gone: Callable[[Claim], None], handler_time: HandlerTime | None = None) -> None:
        self._index = index
        self._on_gone = on_gone
        self._claims: dict[TopicPartition, Claim] = {}
        self._is_sorted = True
        self._going: list[Claim] = []
        # The claims that may have something, the next one first.
        self._line: OrderedDict[Claim, None] = OrderedDict()
        # Whose batch is being handed out; and whose messages, or error, the handler has.
        self._current: Claim | None = None
        self._held: Claim | None = None
        self._ended = False
        self._slice = TimeSlice(handler_time or HandlerTime())
        self._steps = 0
        self._arrival = trio.Event()

    @property
    def index(self) -> int:
        """Which of the handler's streams this is, from 0."""
        return self._index

    @property
    def claims(self) -> Mapping[TopicPartition, Claim]:
        """What this stream serves at the moment, by partition, ascending; it may be nothing."""
        if not self._is_sorted:  # not for each that comes: there may be thousands
            self._claims, self._is_sorted = dict(sorted(self._claims.items())), True
        return MappingProxyType(self._claims)

    @property
    def _count(self) -> int:
        return len(self._claims)

    @property
    def has_ended(self) -> bool:
        """Whether the session asks the stream to finish. For handlers that wait for something else meanwhile."""
        return self._ended

    def __str__(self) -> str:
        where = ", ".join(f"{tp} at {claim.position}" for tp, claim in self.claims.items())
        return f"stream {self._index} ({where or 'no partitions'})"

    def __aiter__(self) -> StreamMessages:
        return StreamMessages(self)

    def batches(self) -> StreamBatches:
        """The messages as `MessageBatch`es of one partition each, as `Claim.batches` gives them."""
        return StreamBatches(self)

    async def _advance(self, by_columns: bool = False) -> Claim | None:
        """A claim with messages left to take; None once the session ends. Waits for a time slice if need be."""
        self._steps += 1
        time_slice = self._slice
        if self._current is not None:
            time_slice.left -= self._current._present.count_taken()
        time_slice.take_back()
        now = trio.current_time()
        if self._held is not None:
            self._held._work.end(now)
        may_take = not time_slice.is_over(now)
        while not self._ended:
            while self._going:
                self._drop(self._going.pop(0))
            if not may_take:
                if self._held is not None:
                    self._held._waits()
                may_take = await time_slice.wait()
            elif (claim := self._next(by_columns)) is not None:
                self._current = claim
                time_slice.give()
                return claim
            else:
                if self._arrival.is_set():
                    self._arrival = trio.Event()
                await self._arrival.wait()
                may_take = time_slice.begin_at_once(trio.current_time())
        return None

    def _pace(self) -> object:
        """Changes with each message that is taken, of whatever claim: one that waits in the line is not stuck."""
        return self._current, self._current.position if self._current is not None else None, self._steps

    def _next(self, by_columns: bool) -> Claim | None:
        self._held = current = self._current
        if current is not None and not current._present.is_taken and current._advance_nowait(by_columns):
            return current
        if current is not None:
            current._waits()
            if not current.is_paused:
                current._put_away()  # its next turn may be far off
        while self._line:
            self._held = claim = next(iter(self._line))
            self._line.move_to_end(claim)  # whatever comes of it, the others are next
            if claim._advance_nowait(by_columns):
                return claim
            del self._line[claim]
        self._held = self._current = None
        return None

    def _add(self, claim: Claim) -> None:
        self._claims[claim.topic_partition] = claim
        self._is_sorted = False
        claim._slice = self._slice
        claim._consumer.pace = self._pace
        claim._on_arrival = partial(self._arrived, claim)
        self._arrived(claim)

    def _give_up(self, claim: Claim) -> None:
        """No more of this claim. It has gone once the handler comes back: at its next message, not its next batch."""
        if claim in self._going:
            return
        self._going.append(claim)
        claim._end()  # which wakes whoever waits here
        if self._current is not None and self._current in self._line:
            self._line.move_to_end(self._current, last=False)  # the rest of its batch is next
        self._current = None

    def _drop(self, claim: Claim) -> None:
        del self._claims[claim.topic_partition]
        self._line.pop(claim, None)
        self._on_gone(claim)

    def _end(self) -> None:
        """The session ends: iterators end at their next step."""
        self._ended = True
        self._slice.interrupt()
        for claim in self._claims.values():
            claim._end()
        self._arrival.set()

    def _arrived(self, claim: Claim) -> None:
        self._line.setdefault(claim)
        self._arrival.set()


class StreamMessages:
    """A stream's messages, each partition's in order. Checkpoints are taken as by a claim's."""

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
    """A stream's batches. `anext` is cancel-safe: a cancelled call takes nothing, and the next one goes on."""

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
