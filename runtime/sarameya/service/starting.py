"""What takes long to start (a handler's Spark) must not keep a service from ending meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeVar

import trio

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
