"""Calls of `MessageHandler.handle`: a coroutine on the event loop, or a plain function in a thread or a process."""

from __future__ import annotations

import functools
import inspect
import math
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from sarameya.errors import HandlerError, HandlerTimeoutError
from sarameya.group.monitoring.stacks import continued
from sarameya.handling.processes import WorkerProcesses
from sarameya.model import Message


class NoThreadError(HandlerTimeoutError):
    """A message whose call has not begun: all threads are left behind in earlier calls."""

    def __str__(self) -> str:
        threads = "all threads are in calls that have exceeded `max_handler_time`"
        return f"{self.partition} offset {self.offset}: no thread was free within {self.seconds:g} s: {threads}"


class _Thread:
    """The thread of one call, as trio's limiter of threads. The time limit of the call begins with it.

    From then on no cancellation but the time limit ends the wait for the thread.
    """

    def __init__(self, threads: trio.CapacityLimiter, scope: trio.CancelScope, limit: float) -> None:
        self._threads = threads
        self._scope = scope
        self._limit = limit
        self._id: int | None = None
        self.has_begun = False

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await self._threads.acquire_on_behalf_of(borrower)
        self.has_begun = True
        self._scope.shield = True
        self._scope.deadline = trio.current_time() + self._limit

    def release_on_behalf_of(self, borrower: object) -> None:
        self._threads.release_on_behalf_of(borrower)

    def run(self, function: Callable[[Any], Any], argument: Any) -> tuple[Any]:
        """Call a function in this thread. Return a tuple, since trio refuses functions that return coroutines."""
        self._id = threading.get_ident()
        return (function(argument),)

    def stack(self) -> traceback.StackSummary:
        """Return the stack of the thread, outermost frame first, as the one of the task that waits for it."""
        frame = None if self._id is None else sys._current_frames().get(self._id)
        return traceback.StackSummary.extract(reversed([*traceback.walk_stack(frame)]) if frame else iter(()))


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
        self._processes = processes
        self._call = functools.partial(run, function) if processes is None else processes.call
        self._in_threads = processes is None and not is_async(function)
        self._threads = trio.CapacityLimiter(threads)
        self._limit = math.inf if limit is None else limit
        self._gets_batch = gets_batch

    @property
    def runs_in_processes(self) -> bool:
        """True if the function is called in processes."""
        return self._processes is not None

    async def start_process(self) -> None:
        """Start a process for the next call, if none is free. That may take seconds, which are not the handler's time.

        Raises:
            Exception: trio-parallel's BrokenWorkerError if the process has died.
        """
        if self._processes is not None:
            await self._processes.start()

    async def call(self, messages: Sequence[Message[Any, Any]]) -> None:
        """Handle messages: one, unless the function gets a batch.

        A coroutine is cancelled at the time limit, and a process is killed. A thread cannot be stopped. A cancellation
        waits for it: no thread may still work on a message when another member owns its partition. At the time limit it
        is left behind, and keeps its place among `threads`.

        Raises:
            HandlerTimeoutError: The time limit has passed.
            NoThreadError: No thread was free within the time limit.
            HandlerError: The function has returned a generator: nothing has run.
            Exception: Any exception of the function.
        """
        argument = messages if self._gets_batch else messages[0]
        if self._limit == math.inf and not self._in_threads:
            await self._call(argument)
            return
        scope = trio.CancelScope(deadline=trio.current_time() + self._limit)
        thread = _Thread(self._threads, scope, self._limit)
        with scope:
            if self._in_threads:
                await self._call_in_thread(argument, scope, thread)
            else:
                await self._call(argument)
        if scope.cancelled_caught:
            kind = NoThreadError if self._in_threads and not thread.has_begun else HandlerTimeoutError
            raise kind(messages[0].topic_partition, messages[0].offset, self._limit)

    async def _call_in_thread(self, argument: Any, scope: trio.CancelScope, thread: _Thread) -> None:
        with continued(thread.stack):
            (returned,) = await trio.to_thread.run_sync(
                thread.run,
                self._function,
                argument,
                abandon_on_cancel=True,
                limiter=thread,  # type: ignore[arg-type]
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
