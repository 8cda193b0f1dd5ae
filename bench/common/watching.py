"""Measures the memory of a program and of all processes that it starts, while it runs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from bench.common.processes import rss_bytes_of, tree

_POLL_SECONDS = 0.1
"""Seconds between two measurements."""
_TREE_SECONDS = 1.0
"""Seconds between two searches for new processes. They are rare: a search reads all processes of the machine."""


@attrs.define
class Peak:
    """Peak memory of a program and its descendants."""

    rss_bytes: int = 0
    """The highest sum of any measurement."""


@asynccontextmanager
async def watching(pid: int) -> AsyncIterator[Peak]:
    """Measure a process and its descendants until the block ends."""
    peak = Peak()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, pid, peak)
        yield peak
        nursery.cancel_scope.cancel()


async def _watch(pid: int, peak: Peak) -> None:
    searched = -_TREE_SECONDS
    pids: set[int] = set()
    while True:
        if time.monotonic() - searched >= _TREE_SECONDS:
            searched, pids = time.monotonic(), tree(pid)
        peak.rss_bytes = max(peak.rss_bytes, rss_bytes_of(pids))
        await trio.sleep(_POLL_SECONDS)
