"""Calls of `MessageHandler.handle`: a coroutine on the event loop, or a plain function in a thread or a process."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from sarameya.errors import HandlerError, HandlerTimeoutError
from sarameya.handling.processes import WorkerProcesses
from sarameya.model import Message


class Calls:
    """Calls of one handler's `handle`, or of its `handle_batch`.

    A plain function may return an awaitable: a lambda, or a decorator, may hide a coroutine function. It is awaited
    where a coroutine function would run, and cancelled like one.

    Args:
        function: A coroutine function, or a plain function, which is called in worker threads.
        threads: Maximum number of threads.
        limit: Maximum of seconds for a call; None for no limit.
        gets_batch: The function gets a sequence of messages, not one message.
        processes: Processes that call a plain function instead of threads.
        run: Calls a function and awaits what it returns, on the handler's event loop.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        threads: int,
        limit: float | None,
        *,
        gets_batch: bool = False,
        processes: WorkerProcesses | None = None,
        run: Callable[..., Awaitable[None]],
    ) -> None:
        self._function = function
        self._run = run
        self._call = functools.partial(run, function) if processes is None else processes.call
        self._in_threads = processes is None and not is_async(function)
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
            HandlerError: The function has returned a generator: nothing has run.
            Exception: Any exception of the function.
        """
        argument = messages if self._gets_batch else messages[0]
        if self._limit is None and not self._in_threads:
            await self._call(argument)
            return
        deadline = math.inf if self._limit is None else trio.current_time() + self._limit
        with trio.CancelScope(deadline=deadline, shield=self._in_threads) as scope:
            if self._in_threads:
                await self._call_in_thread(argument, scope)
            else:
                await self._call(argument)
        if scope.cancelled_caught and self._limit is not None:
            raise HandlerTimeoutError(messages[0].topic_partition, messages[0].offset, self._limit)

    async def _call_in_thread(self, argument: Any, scope: trio.CancelScope) -> None:
        # A tuple, since trio refuses functions that return coroutines.
        (returned,) = await trio.to_thread.run_sync(
            lambda: (self._function(argument),), abandon_on_cancel=True, limiter=self._threads
        )
        if inspect.isawaitable(returned):
            scope.shield = False
            try:
                await self._run(lambda: returned)
            finally:
                if inspect.iscoroutine(returned) and inspect.getcoroutinestate(returned) == inspect.CORO_CREATED:
                    returned.close()  # it was cancelled before it began
        elif inspect.isgenerator(returned) or inspect.isasyncgen(returned):
            raise HandlerError(f"{self._function!r} returned {returned!r}, which runs nothing: remove the `yield`")


def is_async(handle: Any) -> bool:
    """Return whether a call of `handle` returns an awaitable for certain."""
    while isinstance(handle, functools.partial):
        handle = handle.func
    return inspect.iscoroutinefunction(handle) or inspect.iscoroutinefunction(type(handle).__call__)
