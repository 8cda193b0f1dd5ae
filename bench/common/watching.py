"""The memory of a program and of all that it starts, watched as long as it runs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from bench.common.processes import rss_bytes_of, tree

LOOK_SECONDS = 0.1
_WHO_SECONDS = 1.0
"""What it has started is looked for less often: all processes of the machine are asked for that."""


@attrs.define
class Peak:
    rss_bytes: int = 0
    """The most that all had together at any look."""


@asynccontextmanager
async def watching(pid: int) -> AsyncIterator[Peak]:
    """Watch a process and what it starts for the length of the block."""
    peak = Peak()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, pid, peak)
        yield peak
        nursery.cancel_scope.cancel()


async def _watch(pid: int, peak: Peak) -> None:
    asked = -_WHO_SECONDS
    pids: set[int] = set()
    while True:
        if time.monotonic() - asked >= _WHO_SECONDS:
            asked, pids = time.monotonic(), tree(pid)
        peak.rss_bytes = max(peak.rss_bytes, rss_bytes_of(pids))
        await trio.sleep(LOOK_SECONDS)
