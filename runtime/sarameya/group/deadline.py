"""By when what is being given up has to be, and what outlives that.

Python cannot stop a task that swallows its cancellation. All that can be done is to say which it is, and where it
stands; whoever asks then goes on without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import trio

_LEAST_SECONDS = 1.0
"""What there is for ending in order, whatever the deadline: it may be over when we hear of it."""

_UNWIND_SECONDS = 0.5
"""How long a task may take to unwind once it is cancelled, before it counts as stuck."""

_SHARE = 0.8
"""Of the time until the deadline, what something may have at the most that other things have to follow."""

Tasks = Mapping[str, trio.lowlevel.Task]


class Deadline:
    """None at first; `hasten` brings it nearer, `grant` sets it anew, `lift` takes it away."""

    def __init__(self) -> None:
        self.at = math.inf
        self._scope = trio.CancelScope()

    def hasten(self, deadline: float) -> None:
        """Only ever nearer; but a moment is always left."""
        self._move(min(self.at, in_order(deadline)))

    def grant(self, deadline: float) -> None:
        """What begins now has until then, though that be later: said once for each thing that begins."""
        self._move(deadline)

    def lift(self) -> None:
        """All that had to be given up has been."""
        self._move(math.inf)

    def _move(self, at: float) -> None:
        self.at = at
        self._scope.deadline = at + _UNWIND_SECONDS

    async def outlived_by(self, tasks: Callable[[], Tasks]) -> Tasks:
        """Wait until the deadline, or a later one, is over and some of `tasks`, which were cancelled by then, go on."""
        while True:
            with trio.CancelScope(deadline=self.at + _UNWIND_SECONDS) as self._scope:
                await trio.sleep_forever()
            if trio.current_time() < self.at + _UNWIND_SECONDS:
                continue  # all was done in this very turn
            if stuck := tasks():
                return stuck
            self.lift()


def in_order(deadline: float) -> float:
    """The deadline, or a moment from now if that is later."""
    return max(deadline, trio.current_time() + _LEAST_SECONDS)


def most_of(deadline: float) -> float:
    """Until when something may go on that other things have to follow before `deadline`."""
    now = trio.current_time()
    return now + _SHARE * max(deadline - now, _LEAST_SECONDS)
