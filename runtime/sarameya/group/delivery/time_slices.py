"""Time slices: how long a handler runs before heartbeats and other tasks do.

All handlers of a member share one event loop with its heartbeats, and a handler may compute or block between two
messages. So a reading task gets a time slice: about 10 ms, or 1,000 messages. The clock is checked before each message,
and a handler that takes 0.1 s for one message yields after that message.

`HandlerTime` keeps one time budget for all reading tasks of a member. In one pass of trio's scheduler handlers get one
slice together; a task that comes too late waits in line for a later pass. Otherwise 16 partitions with a handler that
blocks for 0.1 s would delay a heartbeat by 1.6 s in each of the passes that it needs.

The rules that keep the membership, with the test of each in `tests/group/test_time_slices.py` and, with a broker in
another process, `tests/integration/test_blocking_handlers.py`:

- A handler has a slice already when it is called for a claim, before it asks for its first message. `start_offset`
  is called in slices, too.
- After a long pass several passes follow in which no handler gets messages: sending a heartbeat, and receiving its
  response, take several passes each.
- A handler may also block after an `await` of its own, when nothing can make it wait. So the number of tasks that hold
  messages is limited once a pass takes `overload` seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import trio

_SLICE_SECONDS = 0.01
_SLICE_MESSAGES = 1000
"""Bounds a slice under virtual time, too, whose clock stands still while a handler computes."""
_MOST_PASSES = 10
"""Passes without any handler after one that took `_MOST_PASSES` slices or longer."""
_FIRST_LIMIT = 32
_GROWTH = 1.5
"""The limit's factor for each second without an overloaded pass."""
_LONGEST_GROWTH = 60.0
"""Seconds of growth: by then there is no limit any more."""
_LOOK_SECONDS = 0.1
"""Interval of checks while the limit is reached: it grows with time."""


class HandlerTime(trio.abc.Instrument):
    """Shares the event loop's time between the reading tasks of one member.

    Args:
        overload: Seconds that one pass of the scheduler may take before fewer tasks may hold messages at a time.
            Infinite for a reader without a membership to keep.
    """

    def __init__(self, overload: float = math.inf) -> None:
        self._overload = overload
        self._pass_began = trio.current_time()
        self._last_pass = 0.0
        # Tasks that wait for a slice, the next one first. None: a task that was cancelled, and keeps its place.
        self._line: dict[object, trio.Event | None] = {}
        self._first: object = None
        self._returned = trio.Event()
        self._in_hand = self._most_in_hand = 0
        self._limit, self._limited_at = float(_FIRST_LIMIT), self._pass_began

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the passes of the running loop for the length of the block."""
        instruments: list[trio.abc.Instrument] = [self]
        if hasattr(trio.lowlevel.current_clock(), "autojump_threshold"):
            instruments.append(_FirstSteps(self))
        for instrument in instruments:
            trio.lowlevel.add_instrument(instrument)
        try:
            yield
        finally:
            for instrument in instruments:
                trio.lowlevel.remove_instrument(instrument)

    # -- trio's instrument: called once a pass each ---------------------------------------------------

    def after_io_wait(self, timeout: float) -> None:
        self._pass_began = trio.current_time()
        self._most_in_hand = self._in_hand

    def before_io_wait(self, timeout: float) -> None:
        now = trio.current_time()
        self._last_pass = max(0.0, now - self._pass_began)
        if self._last_pass > self._overload:
            self._limit = max(1.0, self._most_in_hand * self._overload / self._last_pass)
            self._limited_at = now

    # -- for time slices ------------------------------------------------------------------------------

    def give(self) -> None:
        """Count one more task that holds messages."""
        self._in_hand += 1
        self._most_in_hand = max(self._most_in_hand, self._in_hand)

    def take_back(self) -> None:
        """Count one task less that holds messages."""
        self._in_hand -= 1
        self._returned.set()

    def is_free(self, now: float) -> bool:
        """Return whether a task may begin a slice at once, in the present pass."""
        in_time = now - self._pass_began < _SLICE_SECONDS
        return in_time and self._in_hand < self._limit_at(now) and self._first is None

    async def wait(self, who: object) -> None:
        """Wait in line until `who` may begin a slice.

        A cancelled wait keeps its place. Otherwise a task that reads with a time-out shorter than the line would never
        get to its head (`test_reader_with_a_time_out_keeps_its_place_in_the_line`).
        """
        # Another task may wait for the same slice; it gets its own place.
        place = who if self._line.get(who) is None else object()
        called = self._line[place] = trio.Event()
        self._call_next()
        try:
            await called.wait()  # which takes one pass
            for _ in range(min(int(self._last_pass / _SLICE_SECONDS), _MOST_PASSES) - 1):
                await trio.lowlevel.checkpoint()
            while self._in_hand >= self._limit_at(trio.current_time()):
                self._returned = trio.Event()
                with trio.move_on_after(_LOOK_SECONDS):
                    await self._returned.wait()
            self.leave(place)
        except trio.Cancelled:
            if place is who and who in self._line:
                self._line[who] = None
            else:
                self.leave(place)
            raise
        finally:
            if self._first is place:
                self._first = None
                self._call_next()

    def leave(self, place: object) -> None:
        """Drop a place in the line, if there is one."""
        self._line.pop(place, None)

    def _call_next(self) -> None:
        if self._first is None:
            self._first = next((place for place, called in self._line.items() if called is not None), None)
            if (called := self._line.get(self._first)) is not None:
                called.set()

    def _limit_at(self, now: float) -> float:
        return self._limit * math.pow(_GROWTH, min(now - self._limited_at, _LONGEST_GROWTH))


class _FirstSteps(trio.abc.Instrument):
    """Begins a pass with the first step of a task, under a clock that jumps while no task runs.

    trio's virtual clock jumps within a pass. Counted as the pass's length, a jump of seconds looks like an overloaded
    loop (`test_jump_of_the_virtual_clock_is_no_overload`). Other clocks are spared the call at each step.
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

    __slots__ = ("_began", "_gives", "_time", "_waiting", "ends", "left")

    def __init__(self, time: HandlerTime) -> None:
        self._time = time
        self._began = -math.inf
        self._gives = False
        # Of each task that waits: several may read one claim.
        self._waiting: set[trio.CancelScope] = set()
        self.left = 0
        """Messages that may be taken before the slice is over."""
        self.ends = -math.inf
        """End of the slice on the real clock. Trio's clock is read only after that, since it costs more."""

    def give(self) -> None:
        """Note that the task holds messages, until `take_back`."""
        if not self._gives:
            self._gives = True
            self._time.give()

    def take_back(self) -> None:
        """Note that the task has asked for more, or has ended."""
        if self._gives:
            self._gives = False
            self._time.take_back()

    async def begin(self) -> None:
        """Begin the first slice, holding messages: a handler may block before it asks for its first message."""
        if self.begin_at_once(trio.current_time()) or await self.wait():
            self.give()

    def is_over(self, now: float) -> bool:
        """Return whether the task has to wait for another slice. One that is not over by trio's clock is continued."""
        if self.left > 0 and now - self._began < _SLICE_SECONDS:
            self.ends = perf_counter() + _SLICE_SECONDS
            return False
        return True

    def begin_at_once(self, now: float) -> bool:
        """Begin a slice for a task that waited for messages. Return False if it has to `wait` in line."""
        if self._time.is_free(now):
            self._begin()
            return True
        return False

    async def wait(self) -> bool:
        """Begin a slice when this task is next. Return False, without a slice, after `interrupt`."""
        with trio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                await self._time.wait(self)
            finally:
                self._waiting.discard(scope)
            self._begin()
            return True
        return False

    def interrupt(self) -> None:
        """End all waits: the tasks have to end, or to stop a partition, and need no slice for that."""
        self._time.leave(self)
        for scope in self._waiting:
            scope.cancel()

    def _begin(self) -> None:
        self._began = trio.current_time()
        self.left, self.ends = _SLICE_MESSAGES, perf_counter() + _SLICE_SECONDS
