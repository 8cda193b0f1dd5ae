"""Helpers for virtual time: a time of day that follows trio's clock, and threads.

A mock clock does not change `time.time()`. And it does not wait for threads: it jumps while all tasks wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import trio
from trio.testing import MockClock

T = TypeVar("T")

VIRTUAL_EPOCH = 1_700_000_000.0
"""Time of day when a mock clock is at 0: 2023-11-14 22:13:20 UTC, in seconds since 1970."""

_PATIENCE = 10.0
"""Real seconds for which a mock clock waits for threads."""


def virtual_wall_clock() -> float:
    """Return the time of day in seconds since 1970, following trio's (mock) clock."""
    return VIRTUAL_EPOCH + trio.current_time()


async def run_inline(function: Callable[[], T], /) -> T:
    """Run `function` on the event loop instead of in a thread, as `ConsumerGroup(run_sync=...)`."""
    await trio.lowlevel.checkpoint()
    return function()


@contextmanager
def threads_in_virtual_time() -> Iterator[None]:
    """Let virtual time stand still while `trio.to_thread.run_sync` waits for a thread.

    Otherwise a mock clock jumps to the next timer meanwhile, such as the deadline of a rebalance. It jumps nevertheless
    once all tasks have waited for ten real seconds: the thread itself may wait for a timer.

    `ClaimFeed.run` and the fixtures of the pytest plugin do this already.
    """
    _threads.install()
    try:
        yield
    finally:
        _threads.uninstall()


class _Threads:
    """The replacement of `trio.to_thread.run_sync`. Blocks that use it may overlap."""

    def __init__(self) -> None:
        self._run_sync: Any = None
        self._installed = 0
        # Number of running threads of each clock, and the clock's own threshold.
        self._running: dict[MockClock, tuple[int, float]] = {}

    def install(self) -> None:
        self._installed += 1
        if self._installed == 1:
            self._run_sync = trio.to_thread.run_sync
            trio.to_thread.run_sync = self._in_stopped_time  # type: ignore[assignment]

    def uninstall(self) -> None:
        self._installed -= 1
        if self._installed == 0:
            trio.to_thread.run_sync = self._run_sync

    async def _in_stopped_time(self, *args: Any, **options: Any) -> Any:
        clock, run_sync = trio.lowlevel.current_clock(), self._run_sync
        if not isinstance(clock, MockClock):
            return await run_sync(*args, **options)
        count, threshold = self._running.pop(clock, (0, clock.autojump_threshold))
        self._running[clock] = count + 1, threshold
        clock.autojump_threshold = max(threshold, _PATIENCE)
        try:
            return await run_sync(*args, **options)
        finally:
            count, threshold = self._running.pop(clock)
            if count > 1:
                self._running[clock] = count - 1, threshold
            else:
                clock.autojump_threshold = threshold


_threads = _Threads()
