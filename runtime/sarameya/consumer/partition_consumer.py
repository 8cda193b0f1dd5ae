"""Feed of one partition: passes fetched batches from its broker consumer to its claim through a bounded buffer.

No method waits. The broker consumer calls `deliver` and `fail`, which notify the claim (`on_arrival`). The claim takes
batches with `receive_nowait` and calls `taken` when they are processed, which notifies the broker consumer of the room
(`on_change`). Only the broker consumer moves the cursor. Whether there is room is decided before a fetch, so a delivery
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


def _do_nothing() -> None:
    """Default of the callbacks."""


class PartitionConsumer:
    """Feed of one claim. `cursor` has the position of the fetches, `share` the part of the byte budget."""

    def __init__(self, cursor: FetchCursor, buffer_fetches: int, share: Share) -> None:
        self.cursor = cursor
        self.share = share
        self.source = PartitionSource()
        self.start_offset = cursor.position
        self.on_change: Callable[[], None] = _do_nothing
        """Called when the room may have changed: the broker consumer decides again whether to fetch."""
        self.on_arrival: Callable[[], None] = _do_nothing
        """Called when something changes for the claim: new records, an error, the end, or a resume."""
        self.on_idle: Callable[[], None] = _do_nothing
        """Called when the last message that is in flight (`Claim.concurrently`) is finished."""
        self.progress: Callable[[], int] = lambda: self.start_offset
        """Returns the position of the claim's handler."""
        self.pace: Callable[[], object] = lambda: self.progress()
        """Returns a value that changes while the handler makes progress.

        The value is the handler's position or, if one task reads several partitions, the progress of that task.
        """
        self.full_since = -math.inf
        """Time at which the buffer last became full, on trio's clock."""
        self.is_paused = False
        self.has_ended = False
        self.stopped_at = -math.inf
        """Time at which the feed was last backpressured, paused or ended, on trio's clock."""
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
        """High watermark, as a fetch or a lookup returned it last; -1 before the first."""
        return max(self.cursor.high_water_mark, self.source.looked_up[0])

    @property
    def last_stable_offset(self) -> int:
        """Last stable offset, as a fetch or a lookup returned it last; -1 before the first."""
        return max(self.cursor.last_stable_offset, self.source.looked_up[1])

    @property
    def is_backpressured(self) -> bool:
        """True if the handler made no progress for too long. No fetch names the partition until the buffer is empty."""
        return self._on_drained is not None

    @property
    def is_empty(self) -> bool:
        """True if the claim has taken everything that was fetched."""
        return not self._buffer

    @property
    def has_room(self) -> bool:
        """True if the result of another fetch can be buffered."""
        return len(self._buffer) < self._buffer_fetches and not self.is_backpressured and self.share.has_room

    @property
    def is_wanted(self) -> bool:
        """True if a fetch should name this partition: there is room, and it is not paused."""
        return not self.is_paused and self.has_room

    @property
    def is_full(self) -> bool:
        """True if only its unprocessed messages keep the partition out of fetches, neither a pause nor backpressure."""
        return not (self.is_paused or self.is_backpressured or self.has_room)

    def is_full_briefly(self, now: float, patience: float) -> bool:
        """Return whether room is likely soon: the buffer has been full for less than `patience` seconds."""
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
        """Start the backpressure: no fetch names the partition until its buffer, which must not be empty, is empty.

        Args:
            on_drained: Called once, with the duration in seconds, when the backpressure or the claim ends.
        """
        self._on_drained = on_drained
        self.stopped_at = trio.current_time()
        self._held_back.begin(self.stopped_at)
        self.on_change()

    def end_backpressure(self) -> None:
        """End the backpressure, if there is any."""
        if self._on_drained is not None:
            on_drained, self._on_drained = self._on_drained, None
            now = trio.current_time()
            seconds = self._held_back.lasting(now)
            self._held_back.end(now)
            on_drained(seconds)

    def backpressured_for(self, now: float) -> float:
        """Return the seconds of the present backpressure, 0 if there is none."""
        return self._held_back.lasting(now)

    def backpressure_seconds_until(self, now: float) -> float:
        """Return the seconds of backpressure in total."""
        return self._held_back.seconds_until(now)

    def position_from_here(self) -> Callable[[], int | None]:
        """Return a function that returns the claim's position, once the claim has received records of later deliveries.

        Before that, the function returns None. Any thread may call it.
        """
        before = self._delivered
        return lambda: self.progress() if self._received > before else None

    def fail(self, error: SarameyaError) -> None:
        """Make the claim's reads raise `error` once the buffer is empty. No delivery may follow."""
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
        """Fetch again. The start of the full buffer's time is reset to now."""
        self.is_paused = False
        self.source.found(records=True)  # assume records: the result of the last fetch is out of date
        if not self.has_room:
            self.full_since = trio.current_time()
        self.on_change()
        self.on_arrival()

    def receive_nowait(self) -> Records | None:
        """Return the next fetched records, or None if the buffer is empty. Call `taken` when they are processed.

        Raises:
            SarameyaError: The buffer is empty, and `fail` was called. Every later call raises it again.
        """
        if self._buffer:
            records = self._buffer.popleft()
            self._received += 1
            if not self._buffer:
                self.end_backpressure()
            self.on_change()
            return records
        if self._failure is not None:
            failure, self._failure = self._failure, self._failure.again()
            raise failure
        return None

    def taken(self, records: Records) -> None:
        """Release the bytes of these records: the claim has passed all of their messages to the handler."""
        self.share.release(records.size_bytes)
        self.on_change()
