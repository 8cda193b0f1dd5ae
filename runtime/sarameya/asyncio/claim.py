"""A claim as a handler of asyncio reads it.

The claim is in trio's thread. It fetches and decodes there, and its batch is read here, by the same iterator that a
handler of trio would read (`group/delivery/present_batch.py`). So one call crosses the threads for each batch.
Position, pauses, revocations and backpressure are those of the claim.

A read that is cancelled loses no message: the request for the next batch goes on, and the next read waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from time import perf_counter

from sarameya.asyncio.portal import Portal, PortalCall
from sarameya.group import claim
from sarameya.message_batch import MessageBatch
from sarameya.model import Message, TopicPartition

_SLICE_SECONDS = 0.01
"""Time after which other tasks of the loop run, even if messages are buffered."""
_SLICE_MESSAGES = 1000
"""Messages that are created from a batch at a time."""


class Claim:
    """A partition assigned to this member, for handlers of asyncio: `sarameya.Claim` with fewer methods."""

    def __init__(self, claim: claim.Claim, portal: Portal) -> None:
        self._claim = claim
        self._portal = portal
        self._present = claim._present
        self._request: PortalCall[bool] | None = None
        # End of the time slice.
        self._ends = 0.0

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._claim.topic

    @property
    def partition(self) -> int:
        """The partition's number in its topic."""
        return self._claim.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one value."""
        return self._claim.topic_partition

    @property
    def initial_offset(self) -> int:
        """The start offset of the claim."""
        return self._claim.initial_offset

    @property
    def position(self) -> int:
        """Offset of the next message for the handler.

        At the end of the log it is the offset of the next record to be written.
        """
        return self._claim.position

    @property
    def high_water_mark(self) -> int:
        """The high watermark as of the last fetch; -1 before the first fetch."""
        return self._claim.high_water_mark

    @property
    def lag(self) -> int:
        """Offsets between the position and the log end (`high_water_mark`); -1 before the first fetch.

        Under read_committed the log ends at its last stable offset.
        """
        return self._claim.lag

    @property
    def is_paused(self) -> bool:
        """True while the partition is paused."""
        return self._claim.is_paused

    @property
    def has_ended(self) -> bool:
        """True once the claim has to stop. For handlers that also wait for something else."""
        return self._claim.has_ended

    async def wait_ended(self) -> None:
        """Wait until the claim has to stop."""
        await self._portal.call(self._claim.wait_ended)

    def __aiter__(self) -> AsyncIterator[Message]:
        return _Messages(self)

    def batches(self) -> AsyncIterator[MessageBatch]:
        """Return an iterator of `MessageBatch`es.

        Each is one record batch, or several small record batches joined into thousands of messages.
        """
        return _Batches(self)

    async def _yield(self) -> None:
        """Let other tasks of the loop run if the time slice is over."""
        if perf_counter() >= self._ends:
            await asyncio.sleep(0)
            self._begin_slice()

    def _begin_slice(self) -> None:
        self._ends = perf_counter() + _SLICE_SECONDS

    async def _has_batch(self, by_columns: bool = False) -> bool:
        """Wait for a batch with untaken messages. Return False once the claim has stopped.

        Args:
            by_columns: The caller takes the whole batch at once.
        """
        if self._request is None:
            if self._claim.has_ended:
                return False
            self._request = self._portal.start(self._claim._advance, by_columns)
        request = self._request
        await request.wait()
        if self._request is request:
            self._request = None
        self._begin_slice()
        return request.result()


class _Messages:
    """Messages of a claim, in order."""

    __slots__ = ("_claim", "_present")

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._present = claim._present

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> Message:
        claim, present = self._claim, self._present
        if perf_counter() < claim._ends:
            for message in present.left:  # the fastest way to take one message
                return message
        while True:
            await claim._yield()
            for message in present.left:
                return message
            present.refill(_SLICE_MESSAGES)
            for message in present.left:
                return message
            if not await claim._has_batch():
                raise StopAsyncIteration


class _Batches:
    """Batches of a claim."""

    __slots__ = ("_claim",)

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    def __aiter__(self) -> _Batches:
        return self

    async def __anext__(self) -> MessageBatch:
        claim = self._claim
        while True:
            await claim._yield()
            if (batch := claim._present.take_rest()) is not None:
                return batch
            if not await claim._has_batch(by_columns=True):
                raise StopAsyncIteration
