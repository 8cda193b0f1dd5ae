"""Slow starts (a handler's Spark) that a stop can interrupt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TypeVar

import trio

from sarameya.service.process.restarts import Restarts
from sarameya.service.process.signals import Stop

T = TypeVar("T")


@asynccontextmanager
async def enter_unless_stopped(context: AbstractAsyncContextManager[T], stop: Stop) -> AsyncIterator[T | None]:
    """Enter `context` for the length of the block. A request of `stop` cancels only its start.

    Yields:
        The context's value; None if the end was requested before the start was complete.
    """
    has_started = False
    # Both scopes enclose the context until its exit, since a nursery that its start opens stays open within them.
    with trio.CancelScope() as start, trio.CancelScope() as life:
        async with AsyncExitStack() as stack:
            if not stop.is_requested:
                with stop.cancelling(start):
                    value = await stack.enter_async_context(context)
                # A start that succeeds in spite of the request is followed by an orderly exit.
                life.shield = stop.is_requested
            if not stop.is_requested:
                has_started = True
                yield value
    if not has_started:
        yield None


@asynccontextmanager
async def enter_with_retries(
    what: str,
    make: Callable[[], AbstractAsyncContextManager[T]],
    stop: Stop,
    restarts: Restarts,
    on_failure: Callable[[Exception, float, int], None],
) -> AsyncIterator[T | None]:
    """Enter `make()` as `enter_unless_stopped` does. Retry a failed start with another `make()`.

    Args:
        what: The name of the context, for the log.
        make: Returns a new context manager for each attempt.
        stop: The request for the end.
        restarts: The policy for retries.
        on_failure: Called with each error, the seconds until the next start, and the failures in a row.

    Raises:
        Exception: The error of a start, if it is final, or an error of the block.
    """
    value: T | None = None
    async with AsyncExitStack() as stack:
        while not stop.is_requested:
            started = trio.current_time()
            try:
                value = await stack.enter_async_context(enter_unless_stopped(make(), stop))
                break
            except Exception as error:
                if restarts.is_final(error, stop):
                    raise
                uptime = trio.current_time() - started
                await restarts.wait_after(what, error, uptime, stop, partial(on_failure, error))
        yield value
