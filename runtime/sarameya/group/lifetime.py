"""The lifetime of a session's tasks: its services outlive the cancellation of its work, until all is finished."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


async def live(
    work: Callable[[], Awaitable[None]],
    finish: Callable[[], Awaitable[None]],
    start_services: Callable[[trio.Nursery], Awaitable[None]],
    on_cancelled: Callable[[], None],
) -> None:
    """Do the work beside the services, and finish whatever became of it. A cancellation from outside reaches the work
    and not the services; `on_cancelled` is told of it at once."""
    shield, running = trio.CancelScope(shield=True), trio.Event()

    async def run_services() -> None:
        with shield:
            async with trio.open_nursery() as services:
                await start_services(services)
                running.set()

    async def notice_cancellation() -> None:
        try:
            await trio.sleep_forever()
        finally:
            on_cancelled()

    async with trio.open_nursery() as nursery:
        # Not `nursery.start`: a task that shields itself would outlive a cancelled start for ever.
        nursery.start_soon(run_services)
        nursery.start_soon(notice_cancellation)
        try:
            await running.wait()
            await work()
        finally:
            try:
                await finish()
            finally:
                # Whatever cleanup raises, also SystemExit: what is shielded must be told to end.
                shield.cancel()
                nursery.cancel_scope.cancel()
