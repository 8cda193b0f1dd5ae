"""Time slices: how long a handler runs before heartbeats and other tasks do.

All handlers of a member share one event loop with its heartbeats, and a handler may compute or block between two
messages. So a reading task gets a time slice: about 10 ms, or 1,000 messages. The clock is checked before each message,
and a handler that takes 0.1 s for one message yields after that message.

`HandlerTime` keeps one time budget for all reading tasks of a member. In one pass of trio's scheduler all handlers
together get one slice. A task that requests a message later in the pass waits in a queue for a later pass. Otherwise 16
partitions with a handler that blocks for 0.1 s would delay a heartbeat by 1.6 s in each of the passes that it needs.

Rules that keep the membership alive. The tests are in `tests/group/test_time_slices.py` and, with a broker in another
process, in `tests/integration/test_blocking_handlers.py`:

- The first slice starts before the handler is called for a claim, not at its first message. `start_offset` is called
  in slices, too.
- After a long pass several passes follow in which no handler gets messages: sending a heartbeat, and receiving its
  response, take several passes each.
- A handler may also block after it has awaited something else: no time slice can delay it then. So the number of tasks
  that hold messages is limited once a pass takes `overload` seconds.
- Time in which the thread only waited for a processor counts for no handler. On a busy machine it makes passes long,
  and handlers that wait for later passes would only add to the delay.
"""

from __future__ import annotations

import math
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice
from time import perf_counter

import trio

_SLICE_SECONDS = 0.01
_SLICE_MESSAGES = 1000
"""Maximum of messages in a slice. The only bound under virtual time, which stops while a handler computes."""
_LONG_PASS = 2 * _SLICE_SECONDS
"""Seconds of a pass from which on passes without any handler follow."""
_MOST_PASSES = 10
"""Maximum of passes without any handler, after a pass that took as many slices or more."""
_FIRST_LIMIT = 32
"""Initial limit of tasks that hold messages."""
_GROWTH = 1.5
"""Factor by which the limit grows in each second without an overloaded pass."""
_LONGEST_GROWTH = 60.0
"""Maximum of seconds of growth: by then the limit has no effect any more."""
_CHECK_SECONDS = 0.1
"""Interval of checks while the limit is reached, since the limit grows with time."""
_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)
_CALLS = count()


class HandlerTime(trio.abc.Instrument):
    """Event loop's time, shared by the reading tasks of one member.

    Args:
        overload: Seconds that one pass of the scheduler may take before fewer tasks may hold messages at a time.
            Infinite for a consumer that is not a member of a group.
    """

    def __init__(self, overload: float = math.inf) -> None:
        self._overload = overload
        # The instrument reads the clock itself: `trio.current_time` would look the clock up each time.
        self._clock = trio.lowlevel.current_clock()
        self._is_virtual = hasattr(self._clock, "autojump_threshold")
        self._pass_began = self._clock.current_time()
        self._usage_before = _usage()
        self._last_pass = 0.0
        # Places of tasks that wait for a slice, in order, and the event that wakes each. None: the task was cancelled,
        # and keeps its place.
        self._queue: dict[object, trio.Event | None] = {}
        # Places of the tasks that were woken together and have not started yet, and how many of these have.
        self._woken: set[object] = set()
        self._started = 0
        # Whether a long pass has ended since they were woken.
        self._was_long = False
        self._released = trio.Event()
        # Tasks that hold messages: now, and the maximum in the present pass.
        self._holders = self._most_holders = 0
        self._limit, self._limited_at = float(_FIRST_LIMIT), self._pass_began

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the passes of the event loop for the length of the block."""
        instruments: list[trio.abc.Instrument] = [self]
        if self._is_virtual:
            instruments.append(_PassStart(self))
        for instrument in instruments:
            trio.lowlevel.add_instrument(instrument)
        try:
            yield
        finally:
            for instrument in instruments:
                trio.lowlevel.remove_instrument(instrument)

    # -- trio's instrument: each method is called once in each pass -----------------------------------

    def after_io_wait(self, timeout: float) -> None:
        self._pass_began = self._clock.current_time()
        self._usage_before = _usage()
        self._most_holders = self._holders

    def before_io_wait(self, timeout: float) -> None:
        now = self._clock.current_time()
        self._last_pass = self._worked_until(now)
        if self._last_pass >= _LONG_PASS:
            self._was_long = True
        if self._last_pass > self._overload:
            self._limit = max(1.0, self._most_holders * self._overload / self._last_pass)
            self._limited_at = now

    # -- for time slices ------------------------------------------------------------------------------

    def add_holder(self) -> None:
        """Count one more task that holds messages."""
        self._holders += 1
        self._most_holders = max(self._most_holders, self._holders)

    def remove_holder(self) -> None:
        """Count one task less that holds messages."""
        self._holders -= 1
        self._released.set()

    def is_free(self, now: float) -> bool:
        """Return whether a task may start a slice at once, in the present pass.

        It may while others wait, if all of these start in the present pass, too: then it makes none of them wait.
        """
        all_start = not self._skipped_passes and len(self._queue) == len(self._woken)
        return self._is_in_time(now) and self._holders < self._limit_at(now) and (all_start or not self._queue)

    async def wait(self, time_slice: TimeSlice | None = None) -> None:
        """Wait in the queue until a slice may start.

        Args:
            time_slice: The slice, whose place a cancelled wait keeps. Otherwise a task that reads with a timeout
                shorter than the wait would never get to the head of the queue
                (`test_reader_with_a_timeout_keeps_its_place_in_the_queue`). None if a cancelled wait ends the task.
        """
        # Another task may wait for the same slice already; then this wait gets its own place.
        place = object() if time_slice is None or self._queue.get(time_slice) is not None else time_slice
        woken = self._queue[place] = trio.Event()
        self._wake_next()
        try:
            while not await self._may_start(woken):
                woken = self._queue[place] = trio.Event()  # the place stays the same
                self._settle(place)
            self._started += 1
            self.drop_place(place)
        except trio.Cancelled:
            if place is time_slice and time_slice in self._queue:
                self._queue[time_slice] = None
            else:
                self.drop_place(place)
            raise
        finally:
            self._settle(place)

    async def _may_start(self, woken: trio.Event) -> bool:
        """Wait until woken. Return False if others that were woken together have used up the time of the pass."""
        await woken.wait()  # takes one pass
        for _ in range(self._skipped_passes):
            await trio.lowlevel.checkpoint()
        while self._holders >= self._limit_at(trio.current_time()):
            self._released = trio.Event()
            with trio.move_on_after(_CHECK_SECONDS):
                await self._released.wait()
        return self._started == 0 or self._is_in_time(trio.current_time())

    def drop_place(self, place: object) -> None:
        """Drop a place in the queue, if it is there."""
        self._queue.pop(place, None)

    def _settle(self, place: object) -> None:
        """Note that a task that was woken has started, or did not."""
        if place in self._woken:
            self._woken.remove(place)
            self._wake_next()

    def _wake_next(self) -> None:
        """Wake the first tasks in the queue, once all that were woken before have started, or did not.

        One after a long pass, so that they start in their order. Otherwise twice as many as have just started.
        """
        if not self._woken:
            count = 1 if self._was_long else 2 * max(1, self._started)
            waiting = ((place, event) for place, event in self._queue.items() if event is not None)
            for place, event in islice(waiting, count):
                self._woken.add(place)
                event.set()
            self._started, self._was_long = 0, False

    @property
    def _skipped_passes(self) -> int:
        """Number of passes in which no task starts: none after a pass of less than two slices."""
        if self._last_pass < _LONG_PASS:
            return 0
        return min(int(self._last_pass / _SLICE_SECONDS), _MOST_PASSES) - 1

    def _is_in_time(self, now: float) -> bool:
        return self._worked_until(now) < _SLICE_SECONDS

    def _worked_until(self, now: float) -> float:
        """Return the seconds of the present pass, without those in which the thread only waited for a processor."""
        seconds = max(0.0, now - self._pass_began)
        if seconds < _SLICE_SECONDS or self._is_virtual:
            return seconds
        (worked, blocked), (worked_before, blocked_before) = _usage(), self._usage_before
        # How long it was blocked is unknown: by a call of a handler, or by another thread that held the interpreter.
        return seconds if blocked != blocked_before else min(seconds, worked - worked_before)

    def _limit_at(self, now: float) -> float:
        return self._limit * math.pow(_GROWTH, min(now - self._limited_at, _LONGEST_GROWTH))


def _usage() -> tuple[float, int]:
    """Return the processor time of this thread in seconds, and how often it was blocked until now.

    On systems that do not tell, it was blocked at each call.
    """
    if _THREAD is None:
        return 0.0, next(_CALLS)
    usage = resource.getrusage(_THREAD)
    return usage.ru_utime + usage.ru_stime, usage.ru_nvcsw


class _PassStart(trio.abc.Instrument):
    """Measures a pass from the first step of a task, for a virtual clock, which jumps while no task runs.

    trio's virtual clock jumps within a pass. If the jump counted as part of the pass, the loop would seem overloaded
    (`test_jump_of_the_virtual_clock_is_no_overload`). Not used with other clocks: a call at each step costs time.
    """

    def __init__(self, handler_time: HandlerTime) -> None:
        self._handler_time = handler_time

    def after_io_wait(self, timeout: float) -> None:
        self._handler_time._pass_began = math.inf

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._handler_time._pass_began == math.inf:
            self._handler_time._pass_began = trio.current_time()


class TimeSlice:
    """The consecutive time slices of one reading task."""

    __slots__ = ("_holds", "_started", "_time", "_waiting", "ends", "left")

    def __init__(self, time: HandlerTime) -> None:
        self._time = time
        self._started = -math.inf
        self._holds = False
        # The cancel scope of each waiting task: several tasks may read one claim.
        self._waiting: set[trio.CancelScope] = set()
        self.left = 0
        """Messages that may be taken before the slice is over."""
        self.ends = -math.inf
        """End of the slice on the real clock. Before it, trio's clock is not read, since that costs more."""

    def hold_messages(self) -> None:
        """Record that the task holds messages, until `release_messages`."""
        if not self._holds:
            self._holds = True
            self._time.add_holder()

    def release_messages(self) -> None:
        """Record that the task holds no messages: it requests the next one, or has ended."""
        if self._holds:
            self._holds = False
            self._time.remove_holder()

    async def start(self) -> None:
        """Start the first slice, as if the task held messages: a handler may block before its first message."""
        if self.start_at_once(trio.current_time()) or await self.wait():
            self.hold_messages()

    def is_over(self, now: float) -> bool:
        """Return whether the task has to wait for another slice. Continue the slice if trio's clock allows it."""
        if self.left > 0 and now - self._started < _SLICE_SECONDS:
            self.ends = perf_counter() + _SLICE_SECONDS
            return False
        return True

    def start_at_once(self, now: float) -> bool:
        """Start a slice for a task that waited for messages. Return False if the task has to `wait` in the queue."""
        if self._time.is_free(now):
            self._start(now)
            return True
        return False

    async def wait(self) -> bool:
        """Wait in the queue, and start a slice. Return False, without a slice, after `interrupt`."""
        with trio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                await self._time.wait(self)
            finally:
                self._waiting.discard(scope)
            self._start(trio.current_time())
            return True
        return False

    def interrupt(self) -> None:
        """End all waits. The tasks have to end, or to stop a partition, and need no slice for that."""
        self._time.drop_place(self)
        for scope in self._waiting:
            scope.cancel()

    def _start(self, now: float) -> None:
        self._started = now
        self.left, self.ends = _SLICE_MESSAGES, perf_counter() + _SLICE_SECONDS
