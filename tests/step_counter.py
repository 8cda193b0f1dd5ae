"""The cost of code, counted in steps of trio's tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio


class Steps(trio.abc.Instrument):
    """A counter of the steps of all tasks."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1

    async def of(self, times: int, action: Callable[[], Awaitable[Any]]) -> float:
        """Run an action `times` times. Return the average number of steps of a run."""
        before = self.count
        for _ in range(times):
            await action()
        return (self.count - before) / times


def counted() -> Steps:
    """Start a counter of steps."""
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    return steps


async def an_hour() -> None:
    """Sleep for an hour of virtual time, which takes two steps of the task."""
    await trio.sleep(3600)
