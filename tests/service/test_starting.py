"""What starts is cancelled by the stop, what has started is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from sarameya.service.signals import Stop
from sarameya.service.starting import entered


@asynccontextmanager
async def slowly(log: list[str], *, is_stubborn: bool = False) -> AsyncIterator[str]:
    """Ten seconds to start in, one to end in."""
    with trio.CancelScope(shield=is_stubborn):
        await trio.sleep(10)
    log.append("started")
    try:
        yield "value"
    finally:
        await trio.sleep(1)
        log.append("left")


@asynccontextmanager
async def with_a_task(log: list[str]) -> AsyncIterator[str]:
    """The same, and a task of its own all the while."""
    async with slowly(log) as value, trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        yield value
        nursery.cancel_scope.cancel()


async def use(context: AbstractAsyncContextManager[str], stop: Stop, log: list[str]) -> None:
    async with entered(context, stop) as value:
        log.append(f"{value} for {trio.current_time():g} s")
        if not stop.asked:
            await stop.wait()
            await trio.sleep(1)
    log.append(f"over at {trio.current_time():g} s")


@pytest.mark.parametrize(
    ("asked_at", "is_stubborn", "told"),
    [
        (0, False, ["None for 0 s", "over at 0 s"]),
        (4, False, ["None for 4 s", "over at 4 s"]),
        (4, True, ["started", "left", "None for 11 s", "over at 11 s"]),
        (20, False, ["started", "value for 10 s", "left", "over at 22 s"]),
    ],
)
async def test_stop_cancels_only_what_has_not_started(
    autojump_clock: MockClock, asked_at: float, is_stubborn: bool, told: list[str]
) -> None:
    log, stop = list[str](), Stop()
    if not asked_at:
        stop.ask("test")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(use, slowly(log, is_stubborn=is_stubborn), stop, log)
        await trio.sleep(asked_at)
        stop.ask("test")
    assert log == told


async def test_context_with_tasks_of_its_own_is_left_after_the_block(autojump_clock: MockClock) -> None:
    log, stop = list[str](), Stop()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(use, with_a_task(log), stop, log)
        await trio.sleep(20)
        stop.ask("test")
    assert log == ["started", "value for 10 s", "left", "over at 22 s"]


async def test_cancellation_from_outside_is_no_stop(autojump_clock: MockClock) -> None:
    log = list[str]()
    with trio.move_on_after(4) as scope:
        await use(slowly(log), Stop(), log)
    assert scope.cancelled_caught
    assert log == []


async def test_what_the_block_raises_is_raised_as_it_is(autojump_clock: MockClock) -> None:
    @asynccontextmanager
    async def plain() -> AsyncIterator[None]:
        yield

    with pytest.raises(ValueError, match="bug"):
        async with entered(plain(), Stop()):
            raise ValueError("bug")
