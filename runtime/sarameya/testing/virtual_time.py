"""What virtual time needs beside a mock clock: record timestamps that move with it, and no threads, which it
does not wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")

VIRTUAL_EPOCH = 1_700_000_000.0
"""What a mock clock's zero is called: 2023-11-14 22:13:20 UTC, in seconds since 1970."""


def virtual_wall_clock() -> float:
    """The time of day in seconds since 1970, as far as trio's (mock) clock has moved since its zero."""
    return VIRTUAL_EPOCH + trio.current_time()


async def run_inline(function: Callable[[], T], /) -> T:
    """For `ConsumerGroup(run_sync=...)`: runs assignors on the event loop, not in a thread."""
    await trio.lowlevel.checkpoint()
    return function()
