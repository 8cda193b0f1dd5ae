"""Calls of `MessageHandler.handle`: a coroutine on the event loop, or a plain function in a thread or a process."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from sarameya.errors import HandlerTimeoutError
from sarameya.handling.processes import WorkerProcesses
from sarameya.model import Message


class Calls:
    """Calls of one handler's `handle`.

    Args:
        handle: A coroutine function, or a plain function, which is called in worker threads.
        threads: Maximum number of threads.
        limit: Maximum of seconds for a call; None for no limit.
        processes: Processes that call a plain function instead of threads.
    """

    def __init__(
        self,
        handle: Callable[[Message[Any, Any]], Any],
        threads: int,
        limit: float | None,
        processes: WorkerProcesses | None = None,
    ) -> None:
        self._handle = handle if processes is None else processes.call
        self._in_threads = not is_async(self._handle)
        self._threads = trio.CapacityLimiter(threads)
        self._limit = limit

    async def call(self, message: Message[Any, Any]) -> None:
        """Handle a message.

        A coroutine is cancelled at the time limit, and a process is killed. A thread cannot be stopped. A cancellation
        waits for it: no thread may still work on a message when another member owns its partition. At the time limit it
        is left behind, and keeps its place among `threads`.

        Raises:
            HandlerTimeoutError: The time limit has passed.
            Exception: Any exception of `handle`.
        """
        deadline = math.inf if self._limit is None else trio.current_time() + self._limit
        with trio.CancelScope(deadline=deadline, shield=self._in_threads) as scope:
            await self._call(message)
        if scope.cancelled_caught and self._limit is not None:
            raise HandlerTimeoutError(message.topic_partition, message.offset, self._limit)

    async def _call(self, message: Message[Any, Any]) -> None:
        if self._in_threads:
            (returned,) = await trio.to_thread.run_sync(
                self._handle_in_thread, message, abandon_on_cancel=True, limiter=self._threads
            )
        else:
            returned = self._handle(message)
        if isinstance(returned, Awaitable):
            await self._wait_for(returned)

    def _handle_in_thread(self, message: Message) -> tuple[Any]:
        # A tuple, since trio refuses functions that return coroutines. A decorator may hide a coroutine function.
        return (self._handle(message),)

    async def _wait_for(self, returned: Awaitable[None]) -> None:
        await returned


def is_async(handle: Any) -> bool:
    """Return whether a call of `handle` returns an awaitable for certain."""
    while isinstance(handle, functools.partial):
        handle = handle.func
    return inspect.iscoroutinefunction(handle) or inspect.iscoroutinefunction(type(handle).__call__)
