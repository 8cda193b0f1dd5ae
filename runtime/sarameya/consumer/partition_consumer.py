"""One partition's feed: what its broker consumer fetched, handed on to its claim through a bounded channel.

The broker's side (`deliver`, `fail`) never blocks; the claim's side (`receive`) waits. The cursor is moved by the
broker's side alone. Whether there is room is decided before a fetch, so a delivery always fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import trio

from sarameya.errors import SarameyaError
from sarameya.model import TopicPartition
from sarameya.protocol.backoff import Attempts
from sarameya.protocol.fetch_cursor import FetchCursor, Records


def _nobody() -> None:
    """Nobody waits for room."""


class PartitionConsumer:
    """The feed of one claim. `cursor` says where it is being read."""

    def __init__(self, cursor: FetchCursor, buffer_fetches: int) -> None:
        self.cursor = cursor
        self.on_room: Callable[[], None] = _nobody
        """Called when the claim has taken something: its broker consumer may ask for more."""
        self.found_nothing = False
        """The last fetch brought nothing for this partition."""
        self.full_since = -math.inf
        """When the buffer last became full, on trio's clock."""
        self.attempts: Attempts | None = None
        """How often its broker has been looked for since it was last served."""
        self.has_ended = False
        self._buffer_fetches = buffer_fetches
        self._failure: SarameyaError | None = None
        # One place more than is ever filled by fetches: an error always finds room.
        self._send, self._receive = trio.open_memory_channel[Records | SarameyaError](buffer_fetches + 1)

    @property
    def partition(self) -> TopicPartition:
        return self.cursor.partition

    @property
    def has_room(self) -> bool:
        """Whether what a fetch brings can be delivered."""
        return self._buffered < self._buffer_fetches

    @property
    def _buffered(self) -> int:
        return self._send.statistics().current_buffer_used

    def deliver(self, records: Records) -> None:
        """Put fetched records into the channel; there must be room."""
        self._send.send_nowait(records)
        if not self.has_room:
            self.full_since = trio.current_time()

    def fail(self, error: SarameyaError) -> None:
        """The claim's reads, once it has taken what is buffered, raise `error`. Nothing may follow."""
        self._send.send_nowait(error)

    def end(self) -> None:
        """No more will come: the claim's iterators end, and what is buffered is dropped with them."""
        self.has_ended = True
        self._send.close()

    async def receive(self) -> Records:
        """The next fetched records. Cancel-safe: a cancelled call takes nothing.

        Raises trio.EndOfChannel after `end`, or, at this and every later call, the error that `fail` was given.
        """
        if self._failure is not None:
            raise self._failure.again()
        records = await self._receive.receive()
        self.on_room()
        if isinstance(records, SarameyaError):
            self._failure = records
            raise records
        return records
