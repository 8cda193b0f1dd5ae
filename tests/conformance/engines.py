"""An engine for tables that need no Spark: work runs in threads, as in the Spark engines, and its session is None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import trio

from sarameya_handlers.spark.engines.engine import Engine


class ThreadEngine(Engine):
    """Runs work in threads. As in the Spark engines, cancelling abandons the thread, whose next checkpoint raises."""

    def __init__(self, *, max_jobs: int = 2) -> None:
        self._max_jobs = max_jobs
        self._jobs = trio.CapacityLimiter(max_jobs)

    @property
    def max_jobs(self) -> int:
        return self._max_jobs

    @property
    def threads(self) -> int:
        """Number of threads that have not ended, abandoned threads included."""
        return self._jobs.borrowed_tokens

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def run(self, work: Callable[[Any, Any], Any], *, tag: str) -> Any:
        return await trio.to_thread.run_sync(
            lambda: work(None, trio.from_thread.check_cancelled), abandon_on_cancel=True, limiter=self._jobs
        )
