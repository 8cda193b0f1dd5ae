"""One partition's feed: what its broker consumer fetched, handed on to its claim through a bounded buffer.

Nothing here waits. The broker's side (`deliver`, `fail`) tells the claim's side of every arrival, which takes it
(`receive_nowait`), says when it has dealt with it (`taken`), and tells the broker's side of the room. The cursor is
moved by the broker's side alone. Whether there is room is decided before a fetch, so a delivery always fits.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import trio

from sarameya.consumer.stopwatch import Stopwatch
from sarameya.errors import SarameyaError
from sarameya.model import TopicPartition
from sarameya.protocol.backoff import Attempts
from sarameya.protocol.byte_budget import Share
from sarameya.protocol.fetch_cursor import FetchCursor, Records


def _nobody() -> None:
    """Nobody waits."""


class PartitionConsumer:
    """The feed of one claim. `cursor` says where it is being read, `share` how much of it may be kept."""

    def __init__(self, cursor: FetchCursor, buffer_fetches: int, share: Share) -> None:
        self.cursor = cursor
        self.share = share
        self.began_at = cursor.position
        self.on_change: Callable[[], None] = _nobody
        """Called when there may be room, or less of it: its broker consumer chooses anew."""
        self.on_arrival: Callable[[], None] = _nobody
        """Called when the claim may find something new: records, an error, the end, or that it is resumed."""
        self.progress: Callable[[], int] = lambda: self.began_at
        """How far the claim's handler has come: its position."""
        self.pace: Callable[[], object] = lambda: self.progress()
        """What changes as long as whoever reads it goes on: its progress or, where one task reads several partitions,
        that one's."""
        self.found_nothing = False
        """The last fetch brought nothing for this partition."""
        self.unfetched_since = math.inf
        """Since when no fetch names it, on trio's clock; infinite where they do."""
        self.looked_up = (-1, -1)
        """Where the log ends, and where its first open transaction begins, as it was looked up since then, or -1."""
        self.full_since = -math.inf
        """When the buffer last became full, on trio's clock."""
        self.attempts: Attempts | None = None
        """How often its broker has been looked for since it was last served."""
        self.replica: int | None = None
        """The node that its leader said is nearer (KIP-392), where it is read from that one."""
        self.lease_until = -math.inf
        """Until when it is read from `replica` or, if that is None, from its leader, whoever is nearer."""
        self.is_paused = False
        self.has_ended = False
        self.stopped_at = -math.inf
        """When it was last held back, paused or ended, on trio's clock."""
        self._buffer_fetches = buffer_fetches
        self._buffer: deque[Records] = deque()
        self._failure: SarameyaError | None = None
        self._on_drained: Callable[[float], None] | None = None
        self._held_back = Stopwatch()
        self._delivered = self._received = 0

    @property
    def partition(self) -> TopicPartition:
        return self.cursor.partition

    @property
    def high_water_mark(self) -> int:
        """The log's end, as far as it is known: by a fetch or, where there is none, looked up. -1 before either."""
        return max(self.cursor.high_water_mark, self.looked_up[0])

    @property
    def last_stable_offset(self) -> int:
        """Where its first open transaction begins, likewise."""
        return max(self.cursor.last_stable_offset, self.looked_up[1])

    @property
    def is_backpressured(self) -> bool:
        """Its handler has come no further for too long: it is not fetched before what is buffered has been taken."""
        return self._on_drained is not None

    @property
    def is_empty(self) -> bool:
        """Whether the claim has taken all that was fetched."""
        return not self._buffer

    @property
    def has_room(self) -> bool:
        """Whether what a fetch brings can be delivered."""
        return len(self._buffer) < self._buffer_fetches and not self.is_backpressured and self.share.has_room

    @property
    def is_wanted(self) -> bool:
        """Whether a fetch should name this partition: there is room, and it is not paused."""
        return not self.is_paused and self.has_room

    @property
    def is_full(self) -> bool:
        """Whether a fetch should not name this partition because of what it has to be taken, and is being."""
        return not (self.is_paused or self.is_backpressured or self.has_room)

    def is_held(self, now: float, patience: float) -> bool:
        """Whether it may have room any moment: full, but not for longer than `patience`."""
        return self.is_full and now < self.full_since + patience

    def deliver(self, records: Records) -> None:
        """Hand over fetched records; there must be room. What comes after `end` is for nobody."""
        if self.has_ended:
            return
        self._buffer.append(records)
        self.share.hold(records.size_bytes)
        self._delivered += 1
        if not self.has_room:
            self.full_since = trio.current_time()
        self.on_arrival()

    def hold_back(self, on_drained: Callable[[float], None]) -> None:
        """Fetch no more before all that is buffered, which must be something, has been taken. `on_drained` is told once
        after how long it is over, if only because the claim is."""
        self._on_drained = on_drained
        self.stopped_at = trio.current_time()
        self._held_back.begin(self.stopped_at)
        self.on_change()

    def goes_on(self) -> None:
        """It is backpressured no longer, if it was."""
        if self._on_drained is not None:
            on_drained, self._on_drained = self._on_drained, None
            now = trio.current_time()
            lasted = self._held_back.lasting(now)
            self._held_back.end(now)
            on_drained(lasted)

    def backpressured_for(self, now: float) -> float:
        """For how long it is backpressured, 0 where it is not."""
        return self._held_back.lasting(now)

    def backpressure_seconds_until(self, now: float) -> float:
        """How long it was so in all."""
        return self._held_back.seconds_until(now)

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
        if not self.has_ended:
            self.stopped_at = trio.current_time()
        self.has_ended = True
        self._buffer.clear()
        self.share.close()
        self.on_arrival()

    def pause(self) -> None:
        """Fetch no more for now. What is buffered stays, and so does the place in the log."""
        self.is_paused = True
        self.stopped_at = trio.current_time()
        self.on_change()

    def resume(self) -> None:
        """Go on: what earlier fetches found, and since when the buffer is full, says nothing any more."""
        self.is_paused = self.found_nothing = False
        if not self.has_room:
            self.full_since = trio.current_time()
        self.on_change()
        self.on_arrival()

    def receive_nowait(self) -> Records | None:
        """The next fetched records, or None if there are none. Say with `taken` when they have been dealt with.

        Raises, once all that was buffered is taken, the error that `fail` was given: at this and every later call.
        """
        if self._buffer:
            records = self._buffer.popleft()
            self._received += 1
            if not self._buffer:
                self.goes_on()
            self.on_change()
            return records
        if self._failure is not None:
            failure, self._failure = self._failure, self._failure.again()
            raise failure
        return None

    def taken(self, records: Records) -> None:
        """All of these have been handed out."""
        self.share.release(records.size_bytes)
        self.on_change()
