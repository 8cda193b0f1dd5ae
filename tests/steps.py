"""Costs in countable units: the steps of tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio


class Steps(trio.abc.Instrument):
    """Counts the times any task ran."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1

    async def of(self, times: int, action: Callable[[], Awaitable[Any]]) -> float:
        """Steps for each of so many times."""
        before = self.count
        for _ in range(times):
            await action()
        return (self.count - before) / times


def counted() -> Steps:
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    return steps


async def an_hour() -> None:
    """Sleep for an hour, which takes two steps of the task."""
    await trio.sleep(3600)
