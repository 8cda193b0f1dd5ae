"""Calls of `MessageHandler.handle`: a coroutine on the event loop, or a plain function in a thread or a process."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from sarameya.errors import HandlerTimeoutError
from sarameya.handling.processes import WorkerProcesses
from sarameya.model import Message


class Calls:
    """Calls of one handler's `handle`, or of its `handle_batch`.

    Args:
        function: A coroutine function, or a plain function, which is called in worker threads.
        threads: Maximum number of threads.
        limit: Maximum of seconds for a call; None for no limit.
        gets_batch: The function gets a sequence of messages, not one message.
        processes: Processes that call a plain function instead of threads.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        threads: int,
        limit: float | None,
        *,
        gets_batch: bool = False,
        processes: WorkerProcesses | None = None,
    ) -> None:
        self._function = function if processes is None else processes.call
        self._in_threads = not is_async(self._function)
        self._threads = trio.CapacityLimiter(threads)
        self._limit = limit
        self._gets_batch = gets_batch

    async def call(self, messages: Sequence[Message[Any, Any]]) -> None:
        """Handle messages: one, unless the function gets a batch.

        A coroutine is cancelled at the time limit, and a process is killed. A thread cannot be stopped. A cancellation
        waits for it: no thread may still work on a message when another member owns its partition. At the time limit it
        is left behind, and keeps its place among `threads`.

        Raises:
            HandlerTimeoutError: The time limit has passed.
            Exception: Any exception of the function.
        """
        argument = messages if self._gets_batch else messages[0]
        if self._limit is None and not self._in_threads:
            await self._call(argument)
            return
        deadline = math.inf if self._limit is None else trio.current_time() + self._limit
        with trio.CancelScope(deadline=deadline, shield=self._in_threads) as scope:
            await self._call(argument)
        if scope.cancelled_caught and self._limit is not None:
            raise HandlerTimeoutError(messages[0].topic_partition, messages[0].offset, self._limit)

    async def _call(self, argument: Any) -> None:
        if self._in_threads:
            (returned,) = await trio.to_thread.run_sync(
                self._call_in_thread, argument, abandon_on_cancel=True, limiter=self._threads
            )
        else:
            returned = self._function(argument)
        if isinstance(returned, Awaitable):
            await self._wait_for(returned)

    def _call_in_thread(self, argument: Any) -> tuple[Any]:
        # A tuple, since trio refuses functions that return coroutines. A decorator may hide a coroutine function.
        return (self._function(argument),)

    async def _wait_for(self, returned: Awaitable[None]) -> None:
        await returned


def is_async(handle: Any) -> bool:
    """Return whether a call of `handle` returns an awaitable for certain."""
    while isinstance(handle, functools.partial):
        handle = handle.func
    return inspect.iscoroutinefunction(handle) or inspect.iscoroutinefunction(type(handle).__call__)
