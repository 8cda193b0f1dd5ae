"""Restarts of Spark in virtual time. Starting and stopping are faked and take time."""

from __future__ import annotations

import logging

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import HandlerError
from sarameya_handlers.spark.engines.keeper import BACKOFF, BACKOFF_MAX, HEALTHY, OPEN_TIMEOUT, Keeper, StartBackoff
from sarameya_handlers.spark.engines.pool import Pool
from sarameya_handlers.spark.errors import SparkGoneError, SparkStartError
from tests.handlers.spark.engines.fake_driver import FakeDriver


def no_jitter() -> StartBackoff:
    return StartBackoff(jitter=lambda: 1.0)


def delays(backoff: StartBackoff, times: list[tuple[float, float]]) -> list[float]:
    """Return the delay before the next start after each life, given as (start, end)."""
    waited = []
    for began, ended in times:
        backoff.record_start(began)
        backoff.record_end(ended)
        waited.append(backoff.not_before - ended)
    return waited


def test_start_after_a_long_life_is_immediate() -> None:
    assert delays(no_jitter(), [(0.0, HEALTHY), (100.0, 100.0 + HEALTHY), (300.0, 1000.0)]) == [0.0, 0.0, 0.0]


def test_starts_after_short_lives_back_off_up_to_a_limit() -> None:
    waited = delays(no_jitter(), [(10.0 * n, 10.0 * n + 1.0) for n in range(10)])
    assert waited[:4] == [0.0, BACKOFF, 2 * BACKOFF, 4 * BACKOFF]
    assert waited[-1] == BACKOFF_MAX


def test_failed_start_counts_as_a_short_life() -> None:
    backoff = no_jitter()
    for now in (0.0, 1.0, 2.0):
        backoff.record_end(now)
    assert backoff.not_before == 2.0 + 2 * BACKOFF


def test_backoff_is_jittered() -> None:
    backoff = StartBackoff(jitter=lambda: 1.2)
    backoff.record_end(0.0)
    backoff.record_end(0.0)
    assert backoff.not_before == pytest.approx(1.2 * BACKOFF)


@attrs.define(eq=False)
class Starts:
    """A fake start and stop of Spark, which take `seconds` each. Starts first raise the exceptions in `failures`."""

    seconds: float = 5.0
    failures: list[Exception] = attrs.field(factory=list)
    started: list[float] = attrs.field(factory=list)
    pools: list[Pool] = attrs.field(factory=list)
    stopped: list[Pool] = attrs.field(factory=list)

    def keeper(self) -> Keeper:
        return Keeper(self.start, self.stop, no_jitter())

    async def start(self) -> Pool:
        self.started.append(trio.current_time())
        await trio.sleep(self.seconds)
        if self.failures:
            raise self.failures.pop(0)
        self.pools.append(Pool(FakeDriver(), 1))
        return self.pools[-1]

    async def stop(self, pool: Pool, include_busy: bool) -> None:
        assert include_busy is (pool.died is None)
        await trio.sleep(self.seconds)
        self.stopped.append(pool)


def silent() -> SparkGoneError:
    return SparkGoneError("the server does not answer", begun=False)


async def opened(starts: Starts) -> Keeper:
    keeper = starts.keeper()
    await keeper.open()
    return keeper


async def living(keeper: Keeper, within: float = 120.0) -> Pool:
    return await keeper.living_pool(trio.current_time() + within)


async def test_living_spark_is_returned_at_once(autojump_clock: MockClock) -> None:
    starts = Starts()
    keeper = await opened(starts)
    now = trio.current_time()
    assert await living(keeper) is await living(keeper) is starts.pools[0]
    assert trio.current_time() == now


async def test_dead_spark_is_replaced_once_for_all_waiters(autojump_clock: MockClock) -> None:
    starts = Starts()
    keeper = await opened(starts)
    starts.pools[0].died = "gone"
    received: list[Pool] = []

    async def wait() -> None:
        received.append(await living(keeper))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(wait)
    assert starts.stopped == starts.pools[:1]
    assert len(starts.pools) == 2
    assert received == [starts.pools[1]] * 5


async def test_spark_dying_repeatedly_is_restarted_with_backoff(autojump_clock: MockClock) -> None:
    starts = Starts(seconds=0.0)
    keeper = await opened(starts)
    began = trio.current_time()
    for _ in range(5):
        (await living(keeper)).died = "gone"
    await living(keeper)
    assert [at - began for at in starts.started[1:]] == pytest.approx([0.0, 0.5, 1.5, 3.5, 7.5])


async def test_failed_restart_is_retried(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    starts = Starts(seconds=0.0)
    keeper = await opened(starts)
    starts.pools[0].died = "gone"
    starts.failures = [silent(), silent(), HandlerError("no memory"), silent()]
    assert await living(keeper) is starts.pools[1]
    logged = [record.message for record in caplog.records]
    assert logged == [
        "the server does not answer; retrying",
        "no memory; retrying",
        "the server does not answer; retrying",
        "Spark is back: interrupted work is retried",
    ]


async def test_waiter_fails_at_its_deadline(
    autojump_clock: MockClock,
) -> None:
    starts = Starts(seconds=0.0)
    keeper = await opened(starts)
    starts.pools[0].died = "gone"
    starts.failures = [silent() for _ in range(100)]
    began = trio.current_time()
    with pytest.raises(SparkGoneError, match="does not answer") as raised:
        await living(keeper, within=60.0)
    assert not raised.value.begun
    assert trio.current_time() - began <= 60.0
    starts.failures = []
    assert await living(keeper, within=60.0) is starts.pools[1]


async def test_start_longer_than_the_deadline_is_completed(autojump_clock: MockClock) -> None:
    starts = Starts(seconds=300.0)
    keeper = await opened(starts)
    starts.pools[0].died = "gone"
    assert await living(keeper, within=60.0) is starts.pools[1]


async def test_cancelled_start_is_repeated_for_another_waiter(autojump_clock: MockClock) -> None:
    starts = Starts()
    keeper = await opened(starts)
    starts.pools[0].died = "gone"
    received: list[Pool] = []

    async def wait(scope: trio.CancelScope) -> None:
        with scope:
            received.append(await living(keeper))

    async with trio.open_nursery() as nursery:
        first, second = trio.CancelScope(), trio.CancelScope()
        nursery.start_soon(wait, first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wait, second)
        await trio.sleep(starts.seconds + 1.0)
        first.cancel()
    assert received == [starts.pools[1]]
    assert len(starts.started) == 3


async def test_first_start_waits_for_a_silent_server(autojump_clock: MockClock) -> None:
    starts = Starts(seconds=0.0, failures=[silent(), silent(), silent()])
    keeper = await opened(starts)
    assert await living(keeper) is starts.pools[0]


async def test_first_start_failure_is_a_configuration_error(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    with pytest.raises(HandlerError, match="no Java"):
        await opened(Starts(seconds=0.0, failures=[HandlerError("no Java")]))
    assert trio.current_time() == began


async def test_silent_server_at_first_start_is_retriable(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    with pytest.raises(SparkGoneError, match="does not answer; start it, or correct `master`") as raised:
        await opened(Starts(seconds=0.0, failures=[silent() for _ in range(100)]))
    assert raised.value.retriable
    assert trio.current_time() - began <= OPEN_TIMEOUT


async def test_close_stops_the_running_spark(autojump_clock: MockClock) -> None:
    starts = Starts()
    unopened = starts.keeper()
    await unopened.close()
    keeper = await opened(starts)
    await keeper.close()
    assert starts.stopped == starts.pools


async def test_start_is_logged_with_its_duration(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sarameya.spark")
    await opened(Starts(seconds=5.0))
    assert [record.message for record in caplog.records] == ["starting Spark", "Spark is ready after 5.0 s"]


async def test_fault_64_failed_first_start_is_retried_by_the_service(autojump_clock: MockClock) -> None:
    """The service shows the reason on its page."""
    starts = Starts(failures=[SparkStartError("the JVM was killed")])
    with pytest.raises(SparkStartError):
        await opened(starts)
    assert len(starts.started) == 1
