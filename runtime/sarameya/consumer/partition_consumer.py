"""Feed of one partition: passes fetched batches from its broker consumer to its claim through a bounded buffer.

Nothing here waits. The broker's side (`deliver`, `fail`) notifies the claim's side of every arrival. The claim's side
takes the batches (`receive_nowait`), reports when they are processed (`taken`), and thereby notifies the broker's side
of the room. Only the broker's side moves the cursor. Whether there is room is decided before a fetch, so a delivery
always fits.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import trio

from sarameya.consumer.partition_source import PartitionSource
from sarameya.consumer.stopwatch import Stopwatch
from sarameya.errors import SarameyaError
from sarameya.model import TopicPartition
from sarameya.protocol.fetch.byte_budget import Share
from sarameya.protocol.fetch.fetch_cursor import FetchCursor, Records


def _nobody() -> None:
    """Do nothing: nobody waits."""


class PartitionConsumer:
    """Feed of one claim. `cursor` has the position of the fetches, `share` the part of the byte budget."""

    def __init__(self, cursor: FetchCursor, buffer_fetches: int, share: Share) -> None:
        self.cursor = cursor
        self.share = share
        self.source = PartitionSource()
        self.began_at = cursor.position
        self.on_change: Callable[[], None] = _nobody
        """Called when the room may have changed: the broker consumer decides again."""
        self.on_arrival: Callable[[], None] = _nobody
        """Called when the claim may find something new: records, an error, the end, or a resume."""
        self.progress: Callable[[], int] = lambda: self.began_at
        """Returns the position of the claim's handler."""
        self.pace: Callable[[], object] = lambda: self.progress()
        """Returns a value that changes while the reader makes progress.

        That is the handler's position or, if one task reads several partitions, the progress of that task.
        """
        self.full_since = -math.inf
        """Time at which the buffer last became full, on trio's clock."""
        self.is_paused = False
        self.has_ended = False
        self.stopped_at = -math.inf
        """Time at which it was last held back, paused or ended, on trio's clock."""
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
        """Log end as known by a fetch or a lookup; -1 before either."""
        return max(self.cursor.high_water_mark, self.source.looked_up[0])

    @property
    def last_stable_offset(self) -> int:
        """Offset of the first open transaction, as known by a fetch or a lookup."""
        return max(self.cursor.last_stable_offset, self.source.looked_up[1])

    @property
    def is_backpressured(self) -> bool:
        """True if the handler made no progress for too long: no fetch before the buffer is empty."""
        return self._on_drained is not None

    @property
    def is_empty(self) -> bool:
        """True if the claim has taken everything that was fetched."""
        return not self._buffer

    @property
    def has_room(self) -> bool:
        """True if the result of a fetch can be delivered."""
        return len(self._buffer) < self._buffer_fetches and not self.is_backpressured and self.share.has_room

    @property
    def is_wanted(self) -> bool:
        """True if a fetch should name this partition: there is room, and it is not paused."""
        return not self.is_paused and self.has_room

    @property
    def is_full(self) -> bool:
        """True if only the buffered messages, which are being taken, keep the partition out of a fetch."""
        return not (self.is_paused or self.is_backpressured or self.has_room)

    def is_held(self, now: float, patience: float) -> bool:
        """Return whether room is likely soon: the buffer is full, but not for longer than `patience` seconds."""
        return self.is_full and now < self.full_since + patience

    def deliver(self, records: Records) -> None:
        """Buffer fetched records; there must be room. Ignored after `end`."""
        if self.has_ended:
            return
        self._buffer.append(records)
        self.share.hold(records.size_bytes)
        self._delivered += 1
        if not self.has_room:
            self.full_since = trio.current_time()
        self.on_arrival()

    def hold_back(self, on_drained: Callable[[float], None]) -> None:
        """Fetch no more before the buffer, which must not be empty, is taken.

        `on_drained` is called once with the duration in seconds when that is over, also if the claim ends.
        """
        self._on_drained = on_drained
        self.stopped_at = trio.current_time()
        self._held_back.begin(self.stopped_at)
        self.on_change()

    def goes_on(self) -> None:
        """End the backpressure, if there is any."""
        if self._on_drained is not None:
            on_drained, self._on_drained = self._on_drained, None
            now = trio.current_time()
            lasted = self._held_back.lasting(now)
            self._held_back.end(now)
            on_drained(lasted)

    def backpressured_for(self, now: float) -> float:
        """Return the seconds of the present backpressure, 0 if there is none."""
        return self._held_back.lasting(now)

    def backpressure_seconds_until(self, now: float) -> float:
        """Return the seconds of backpressure in total."""
        return self._held_back.seconds_until(now)

    def reach_from_here(self) -> Callable[[], int | None]:
        """Return a function for the claim's position among the records delivered from now on.

        The function returns None until the claim gets there. Any thread may call it.
        """
        before = self._delivered
        return lambda: self.progress() if self._received > before else None

    def fail(self, error: SarameyaError) -> None:
        """Let the claim's reads raise `error` once the buffer is taken. Nothing may follow."""
        self._failure = error
        self.on_arrival()

    def end(self) -> None:
        """End the feed and drop the buffer."""
        if not self.has_ended:
            self.stopped_at = trio.current_time()
        self.has_ended = True
        self._buffer.clear()
        self.share.close()
        self.on_arrival()

    def pause(self) -> None:
        """Stop fetching. The buffer and the position stay."""
        self.is_paused = True
        self.stopped_at = trio.current_time()
        self.on_change()

    def resume(self) -> None:
        """Fetch again. Results of earlier fetches, and the time of the full buffer, are reset."""
        self.is_paused = False
        self.source.found(records=True)  # as far as is known
        if not self.has_room:
            self.full_since = trio.current_time()
        self.on_change()
        self.on_arrival()

    def receive_nowait(self) -> Records | None:
        """Return the next fetched records, or None. Call `taken` when they are processed.

        Raises, once the buffer is empty, the error given to `fail`, in this and every later call.
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
        """Record that all of these messages have been handed out."""
        self.share.release(records.size_bytes)
        self.on_change()
