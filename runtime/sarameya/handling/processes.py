"""Calls of a handler in worker processes, by trio-parallel, for work that needs the processor.

Each process has a copy of the handler, made when `consume()` begins. Messages, and exceptions of `handle`, are pickled.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from sarameya.errors import ConfigError, HandlerError
from sarameya.formats.packages import require

_method: Any = None
"""The method of this process's copy of the handler, if this is a worker."""


class WorkerProcesses:
    """Processes that handle messages.

    Args:
        workers: The context of trio-parallel, which starts a process when it is needed.
        limit: Maximum number of processes.
    """

    def __init__(self, workers: Any, limit: int) -> None:
        self._workers = workers
        self._limiter = trio.CapacityLimiter(limit)

    async def call(self, argument: Any) -> None:
        """Call the handler in a process with a message, or a batch. A cancellation kills the process.

        Raises:
            HandlerError: `handle` has returned an awaitable, which a process cannot run.
            Exception: Any exception of `handle`, or trio-parallel's BrokenWorkerError if the process has died.
        """
        await self._workers.run_sync(_call, argument, kill_on_cancel=True, limiter=self._limiter)


@asynccontextmanager
async def open_processes(handler: Any, method: str, limit: int) -> AsyncIterator[WorkerProcesses]:
    """Open processes for a handler. They end with the block.

    Args:
        handler: The handler, which must be picklable.
        method: Name of the method that handles messages.
        limit: Maximum number of processes.
    """
    from trio_parallel import open_worker_context

    async with open_worker_context(init=partial(_load, pickle.dumps(getattr(handler, method)))) as workers:
        yield WorkerProcesses(workers, limit)


def check_processes(handler: Any, limit: int) -> None:
    """Check that a handler can be used in processes.

    Raises:
        ConfigError: trio-parallel is not installed, or the handler cannot be pickled.
    """
    require("processes", limit, "trio_parallel", "processes")
    try:
        pickle.dumps(handler)
    except Exception as error:
        reason = f"needs a handler that can be pickled; open connections in `handle`: {type(error).__name__}: {error}"
        raise ConfigError("processes", limit, reason) from error


def _load(data: bytes) -> None:
    global _method
    _method = pickle.loads(data)


def _call(argument: Any) -> None:
    returned = _method(argument)
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise HandlerError(f"handle returned {returned!r}: a process has no event loop; remove `processes`")
