"""What takes long to start (a handler's Spark) must not keep a service from ending meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TypeVar

import trio

from sarameya.service.restarts import Restarts
from sarameya.service.signals import Stop

T = TypeVar("T")


@asynccontextmanager
async def entered(context: AbstractAsyncContextManager[T], stop: Stop) -> AsyncIterator[T | None]:
    """`context` entered, and left behind the block; asking `stop` for the end cancels its start, and no more.

    Where that was asked for, the block is given None: see `stop.asked`.
    """
    has_started = False
    # Both stand around all of its life, since what its start opens (a nursery, say) stays open within them.
    with trio.CancelScope() as start, trio.CancelScope() as life:
        async with AsyncExitStack() as stack:
            if not stop.asked:
                with stop.cancelling(start):
                    value = await stack.enter_async_context(context)
                # What has come to be all the same is left in order.
                life.shield = stop.asked
            if not stop.asked:
                has_started = True
                yield value
    if not has_started:
        yield None


@asynccontextmanager
async def entered_at_last(
    what: str,
    make: Callable[[], AbstractAsyncContextManager[T]],
    stop: Stop,
    restarts: Restarts,
    on_failure: Callable[[Exception, float, int], None],
) -> AsyncIterator[T | None]:
    """`make()` entered as by `entered`; a start that fails is retried as `restarts` say, with another `make()`.

    Args:
        what: The name of what is started, for the log.
        on_failure: Called with each error, the seconds until the next start, and the failures in a row.

    Raises:
        Exception: The start's, where it is final, and whatever the block raises.
    """
    value: T | None = None
    async with AsyncExitStack() as stack:
        while not stop.asked:
            started = trio.current_time()
            try:
                value = await stack.enter_async_context(entered(make(), stop))
                break
            except Exception as error:
                if restarts.is_final(error, stop):
                    raise
                lived = trio.current_time() - started
                await restarts.wait_after(what, error, lived, stop, partial(on_failure, error))
        yield value
