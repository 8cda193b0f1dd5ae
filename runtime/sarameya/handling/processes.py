"""Calls of a handler in worker processes, by trio-parallel, for work that needs the processor.

Each process has a copy of the handler, made when `consume()` begins. Messages, and exceptions of `handle`, are pickled.
"""

from __future__ import annotations

import inspect
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Any

from sarameya.errors import ConfigError, HandlerError
from sarameya.formats.packages import require

_NOT_LOADED = (
    "needs a handler that a new process can load, which has failed; stderr has the traceback of the process. "
    "A program that is run as a script needs `if __name__ == '__main__':`"
)

_method: Any = None
"""The method of this process's copy of the handler, if this is a worker."""


class WorkerProcesses:
    """Processes that handle messages: as many as there are calls at the same time.

    Args:
        workers: The context of trio-parallel.
    """

    def __init__(self, workers: Any) -> None:
        self._workers = workers

    async def start(self) -> None:
        """Start a process if none is free. A call that begins without a checkpoint in between gets the free one.

        Raises:
            BrokenWorkerError: The process has died.
        """
        if not self._workers.statistics().idle_workers:
            await self._run(_do_nothing)

    async def call(self, argument: Any) -> None:
        """Call the handler in a process with a message, or a batch. A cancellation kills the process.

        Raises:
            HandlerError: `handle` has returned an awaitable, which a process cannot run.
            Exception: Any exception of `handle`, or trio-parallel's BrokenWorkerError if the process has died.
        """
        await self._run(_call, argument)

    async def _run(self, function: Callable[..., None], *args: Any) -> None:
        await self._workers.run_sync(function, *args, kill_on_cancel=True, limiter=nullcontext())


@asynccontextmanager
async def open_processes(handler: Any, method: str, limit: int) -> AsyncIterator[WorkerProcesses]:
    """Open processes for a handler. They end with the block, or with this process.

    Args:
        handler: The handler, which must be picklable.
        method: Name of the method that handles messages.
        limit: Maximum number of processes.

    Raises:
        ConfigError: A process cannot load the handler. Otherwise each of its messages would fail.
    """
    from trio_parallel import BrokenWorkerError, open_worker_context

    context = open_worker_context(init=partial(_load, pickle.dumps(getattr(handler, method))))
    processes = WorkerProcesses(await context.__aenter__())
    try:
        try:
            await processes.start()
        except BrokenWorkerError as error:
            raise ConfigError("processes", limit, _NOT_LOADED) from error
        yield processes
    finally:
        # A process that does not end by itself is killed. Its messages are finished, so nothing has failed.
        with suppress(BrokenWorkerError):
            await context.__aexit__(None, None, None)


def check_processes(handler: Any, limit: int, types: tuple[Any, ...]) -> None:
    """Check that a handler can be used in processes.

    Args:
        handler: The handler.
        limit: Maximum number of processes.
        types: Types of keys and values.

    Raises:
        ConfigError: trio-parallel is not installed, or the handler or a type cannot be pickled.
    """
    require("processes", limit, "trio_parallel", "processes")
    for pickled, needs in (
        (types, "needs types of messages that a module defines, not a function"),
        (handler, "needs a handler that can be pickled; open connections in `handle`"),
    ):
        try:
            pickle.dumps(pickled)
        except Exception as error:
            raise ConfigError("processes", limit, f"{needs}: {type(error).__name__}: {error}") from error


def _load(data: bytes) -> None:
    global _method
    # A service manager may signal all processes of a service. The member ends this one, after its message. Not SIG_IGN,
    # which programs that the handler starts would inherit.
    for name in ("SIGTERM", "SIGHUP"):
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, lambda *_: None)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _method = pickle.loads(data)


def _end_with_parent() -> None:
    """Wait until the member's process has died. Its partitions are then owned by others."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def _do_nothing() -> None:
    """Run in a process that has loaded the handler."""


def _call(argument: Any) -> None:
    returned = _method(argument)
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise HandlerError(f"handle returned {returned!r}: a process has no event loop; remove `processes`")
