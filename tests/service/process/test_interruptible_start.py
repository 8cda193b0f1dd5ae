"""A stop cancels a start in progress, and nothing that has started."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya.errors import HandlerError
from sarameya.service.app.app_file import FailurePolicy, ServiceSection
from sarameya.service.process.interruptible_start import enter_unless_stopped, enter_with_retries
from sarameya.service.process.restarts import Restarts
from sarameya.service.process.signals import Stop


@asynccontextmanager
async def slowly(log: list[str], *, is_stubborn: bool = False) -> AsyncIterator[str]:
    """Take ten seconds to start and one second to end."""
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
    """Do the same, with a background task in between."""
    async with slowly(log) as value, trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        yield value
        nursery.cancel_scope.cancel()


async def use(context: AbstractAsyncContextManager[str], stop: Stop, log: list[str]) -> None:
    async with enter_unless_stopped(context, stop) as value:
        log.append(f"{value} for {trio.current_time():g} s")
        if not stop.is_requested:
            await stop.wait()
            await trio.sleep(1)
    log.append(f"over at {trio.current_time():g} s")


@pytest.mark.parametrize(
    ("stop_at", "is_stubborn", "expected"),
    [
        (0, False, ["None for 0 s", "over at 0 s"]),
        (4, False, ["None for 4 s", "over at 4 s"]),
        (4, True, ["started", "left", "None for 11 s", "over at 11 s"]),
        (20, False, ["started", "value for 10 s", "left", "over at 22 s"]),
    ],
)
async def test_stop_cancels_only_an_unfinished_start(
    autojump_clock: MockClock, stop_at: float, is_stubborn: bool, expected: list[str]
) -> None:
    log, stop = list[str](), Stop()
    if not stop_at:
        stop.request("test")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(use, slowly(log, is_stubborn=is_stubborn), stop, log)
        await trio.sleep(stop_at)
        stop.request("test")
    assert log == expected


async def test_context_with_a_task_is_left_after_the_block(autojump_clock: MockClock) -> None:
    log, stop = list[str](), Stop()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(use, with_a_task(log), stop, log)
        await trio.sleep(20)
        stop.request("test")
    assert log == ["started", "value for 10 s", "left", "over at 22 s"]


async def test_cancellation_from_outside_is_not_a_stop(autojump_clock: MockClock) -> None:
    log = list[str]()
    with trio.move_on_after(4) as scope:
        await use(slowly(log), Stop(), log)
    assert scope.cancelled_caught
    assert log == []


async def test_error_of_the_block_is_raised_unchanged(autojump_clock: MockClock) -> None:
    @asynccontextmanager
    async def plain() -> AsyncIterator[None]:
        yield

    with pytest.raises(ValueError, match="bug"):
        async with enter_unless_stopped(plain(), Stop()):
            raise ValueError("bug")


@attrs.define
class Starts:
    """A start that raises these errors in turn, and then succeeds."""

    errors: list[Exception]
    at: list[float] = attrs.field(factory=list)
    reported: list[tuple[str, int]] = attrs.field(factory=list)

    @asynccontextmanager
    async def make(self) -> AsyncIterator[str]:
        self.at.append(trio.current_time())
        await trio.sleep(1)
        if self.errors:
            raise self.errors.pop(0)
        yield "value"

    def failed(self, error: Exception, delay: float, failures: int) -> None:
        self.reported.append((str(error), failures))

    def entered(self, stop: Stop, policy: FailurePolicy = "restart") -> AbstractAsyncContextManager[str | None]:
        restarts = Restarts(ServiceSection(on_failure=policy, restart_backoff=10.0))
        return enter_with_retries("shared thing", self.make, stop, restarts, self.failed)


async def test_fault_64_failed_shared_start_is_retried_with_backoff(autojump_clock: MockClock) -> None:
    starts = Starts([ValueError("full"), OSError("refused")])
    async with starts.entered(Stop()) as value:
        assert value == "value"
    assert len(starts.at) == 3
    assert starts.at[1] - starts.at[0] >= 5
    assert starts.reported == [("full", 1), ("refused", 2)]


@pytest.mark.parametrize(("policy", "error"), [("stop", ValueError("full")), ("restart", HandlerError("no Java"))])
async def test_permanent_failure_of_a_shared_start_is_raised(
    autojump_clock: MockClock, policy: FailurePolicy, error: Exception
) -> None:
    starts = Starts([error])
    with pytest.raises(type(error)):
        async with starts.entered(Stop(), policy):
            pytest.fail("it has not started")
    assert len(starts.at) == 1


async def test_stop_ends_the_wait_for_another_shared_start(autojump_clock: MockClock) -> None:
    starts, stop = Starts([ValueError("full")]), Stop()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stopped_after, 3.0, stop)
        async with starts.entered(stop) as value:
            assert value is None
    assert trio.current_time() <= 4.0


async def test_error_of_the_block_is_no_failure_of_the_start(autojump_clock: MockClock) -> None:
    starts = Starts([])
    with pytest.raises(KeyError):
        async with starts.entered(Stop()):
            raise KeyError("of the block")
    assert len(starts.at) == 1
    assert starts.reported == []


async def stopped_after(seconds: float, stop: Stop) -> None:
    await trio.sleep(seconds)
    stop.request("test")
