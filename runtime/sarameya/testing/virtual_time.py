"""Helpers for virtual time: a time of day that follows trio's clock, and assignors that run without a thread.

A mock clock does not wait for threads, and does not change `time.time()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")

VIRTUAL_EPOCH = 1_700_000_000.0
"""Time of day when a mock clock is at 0: 2023-11-14 22:13:20 UTC, in seconds since 1970."""


def virtual_wall_clock() -> float:
    """Return the time of day in seconds since 1970, following trio's (mock) clock."""
    return VIRTUAL_EPOCH + trio.current_time()


async def run_inline(function: Callable[[], T], /) -> T:
    """Run `function` on the event loop instead of in a thread, as `ConsumerGroup(run_sync=...)`."""
    await trio.lowlevel.checkpoint()
    return function()
