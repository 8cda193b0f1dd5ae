"""One partition's feed: what its broker consumer fetched, handed on to its claim through a bounded buffer.

Nothing here waits. The broker's side (`deliver`, `fail`) tells the claim's side of every arrival, which takes it
(`receive_nowait`) and tells the broker's side of the room. The cursor is moved by the broker's side alone. Whether
there is room is decided before a fetch, so a delivery always fits.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import trio

from sarameya.errors import SarameyaError
from sarameya.model import TopicPartition
from sarameya.protocol.backoff import Attempts
from sarameya.protocol.fetch_cursor import FetchCursor, Records


def _nobody() -> None:
    """Nobody waits."""


class PartitionConsumer:
    """The feed of one claim. `cursor` says where it is being read."""

    def __init__(self, cursor: FetchCursor, buffer_fetches: int) -> None:
        self.cursor = cursor
        self.began_at = cursor.position
        self.on_change: Callable[[], None] = _nobody
        """Called when the claim has taken something, is paused or resumed: its broker consumer chooses anew."""
        self.on_arrival: Callable[[], None] = _nobody
        """Called when the claim may find something new: records, an error, the end, or that it is resumed."""
        self.progress: Callable[[], int] = lambda: self.began_at
        """The claim's position."""
        self.found_nothing = False
        """The last fetch brought nothing for this partition."""
        self.full_since = -math.inf
        """When the buffer last became full, on trio's clock."""
        self.attempts: Attempts | None = None
        """How often its broker has been looked for since it was last served."""
        self.is_paused = False
        self.has_ended = False
        self._buffer_fetches = buffer_fetches
        self._buffer: deque[Records] = deque()
        self._failure: SarameyaError | None = None
        self._delivered = self._received = 0

    @property
    def partition(self) -> TopicPartition:
        return self.cursor.partition

    @property
    def has_room(self) -> bool:
        """Whether what a fetch brings can be delivered."""
        return len(self._buffer) < self._buffer_fetches

    @property
    def is_wanted(self) -> bool:
        """Whether a fetch should name this partition: there is room, and it is not paused."""
        return self.has_room and not self.is_paused

    def is_held(self, now: float, patience: float) -> bool:
        """Whether it may have room any moment: full, but not for longer than `patience`, and being taken from."""
        return not self.is_paused and not self.has_room and now < self.full_since + patience

    def deliver(self, records: Records) -> None:
        """Hand over fetched records; there must be room. What comes after `end` is for nobody."""
        if self.has_ended:
            return
        self._buffer.append(records)
        self._delivered += 1
        if not self.has_room:
            self.full_since = trio.current_time()
        self.on_arrival()

    def reach_from_here(self) -> Callable[[], int | None]:
        """Tells from now on, in any thread, how far the claim has come in what is delivered from now on: its position,
        or None before it has got to that."""
        before = self._delivered
        return lambda: self.progress() if self._received > before else None

    def fail(self, error: SarameyaError) -> None:
        """The claim's reads, once it has taken what is buffered, raise `error`. Nothing may follow."""
        self._failure = error
        self.on_arrival()

    def end(self) -> None:
        """No more will come, and what is buffered is dropped."""
        self.has_ended = True
        self._buffer.clear()
        self.on_arrival()

    def pause(self) -> None:
        """Fetch no more for now. What is buffered stays, and so does the place in the log."""
        self.is_paused = True
        self.on_change()

    def resume(self) -> None:
        """Go on: what earlier fetches found, and since when the buffer is full, says nothing any more."""
        self.is_paused = self.found_nothing = False
        if not self.has_room:
            self.full_since = trio.current_time()
        self.on_change()
        self.on_arrival()

    def receive_nowait(self) -> Records | None:
        """The next fetched records, or None if there are none.

        Raises, once all that was buffered is taken, the error that `fail` was given: at this and every later call.
        """
        if self._buffer:
            records = self._buffer.popleft()
            self._received += 1
            self.on_change()
            return records
        if self._failure is not None:
            failure, self._failure = self._failure, self._failure.again()
            raise failure
        return None
