"""Virtual time: actions and their times. The whole world has one clock; it jumps from one action to the next."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

import attrs


@attrs.define(slots=True, eq=False)
class Timer:
    """An action that will run at its time, unless it is cancelled."""

    when: float
    action: Callable[[], None] | None

    def cancel(self) -> None:
        self.action = None


class Scheduler:
    """The clock and its timers. `now` is in seconds, and never goes back."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Call `action` in `seconds` seconds. Actions of the same time run in the order of their calls."""
        return self.at(self.now + seconds, action)

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        timer = Timer(max(when, self.now), action)
        heapq.heappush(self._heap, (timer.when, next(self._order), timer))
        return timer

    def next_deadline(self) -> float | None:
        """Return the time of the next action; None if none waits."""
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self) -> None:
        """Run the next action, which must be due."""
        when, _, timer = heapq.heappop(self._heap)
        assert when <= self.now
        action, timer.action = timer.action, None
        if action is not None:
            action()
