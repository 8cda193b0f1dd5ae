"""Starting and stopping a Spark, cancelled at any point. The JVM is faked; threads are real."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import HandlerError
from sarameya_handlers import SparkOptions
from sarameya_handlers.spark.engines import driver_start
from sarameya_handlers.spark.engines.connect import ConnectDriver
from sarameya_handlers.spark.engines.jvm import spark_jvm
from sarameya_handlers.spark.engines.pool import Pool
from sarameya_handlers.spark.errors import SparkGoneError
from tests.handlers.spark.engines.fake_driver import FakeDriver


@attrs.define(eq=False)
class FakeProcess:
    killed: threading.Event = attrs.field(factory=threading.Event)

    def kill(self) -> None:
        self.killed.set()


@attrs.define(eq=False)
class FakeStart:
    """A fake of `spark_jvm.start`. It launches a process, then waits for `may_finish`.

    If its process is killed meanwhile, it fails, unless `survives_kill` is set.
    """

    launched: trio.Event = attrs.field(factory=trio.Event)
    may_finish: threading.Event = attrs.field(factory=threading.Event)
    polls: bool = False
    """True if it calls `check` while it waits."""
    survives_kill: bool = True
    process: FakeProcess = attrs.field(factory=FakeProcess)
    environment: Mapping[str, str] | None = None
    stops: int = 0
    _token: trio.lowlevel.TrioToken = attrs.field(factory=trio.lowlevel.current_trio_token)

    session = "a session"

    def __call__(
        self,
        options: SparkOptions,
        *,
        environment: Mapping[str, str] | None,
        on_launched: Callable[[Any], None],
        check: Callable[[], None],
    ) -> FakeStart:
        self.environment = environment
        on_launched(self.process)
        self._token.run_sync_soon(self.launched.set)
        while not self.may_finish.wait(0.01):
            if self.polls:
                check()
            if self.process.killed.is_set() and not self.survives_kill:
                raise HandlerError("Spark does not start")
        return self

    def stop(self, *, is_dead: bool = False) -> None:
        self.stops += 1


async def during_start(fake: FakeStart, monkeypatch: pytest.MonkeyPatch, then: Callable[[trio.Nursery], None]) -> None:
    monkeypatch.setattr(spark_jvm, "start", fake)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver_start.start_jvm, SparkOptions(), {"TOKEN": "t"})
        await fake.launched.wait()
        then(nursery)


async def test_started_jvm_gets_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeStart()
    fake.may_finish.set()
    monkeypatch.setattr(spark_jvm, "start", fake)
    assert await driver_start.start_jvm(SparkOptions(), {"TOKEN": "t"}) is fake
    assert fake.environment == {"TOKEN": "t"}
    assert not fake.process.killed.is_set()
    assert fake.stops == 0


async def test_start_error_is_raised_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeStart(survives_kill=False)
    fake.process.kill()
    monkeypatch.setattr(spark_jvm, "start", fake)
    with pytest.raises(HandlerError, match="does not start"):
        await driver_start.start_jvm(SparkOptions())


@pytest.mark.parametrize("polls", [True, False])
async def test_cancelled_start_kills_its_jvm(monkeypatch: pytest.MonkeyPatch, polls: bool) -> None:
    fake = FakeStart(polls=polls, survives_kill=False)
    with trio.fail_after(10):
        await during_start(fake, monkeypatch, lambda nursery: nursery.cancel_scope.cancel())
    assert fake.process.killed.is_set()


async def test_spark_started_during_a_cancellation_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeStart()

    def cancel(nursery: trio.Nursery) -> None:
        nursery.cancel_scope.cancel()
        fake.may_finish.set()

    with trio.fail_after(10):
        await during_start(fake, monkeypatch, cancel)
    assert fake.stops == 1


async def test_spark_hanging_in_stop_is_killed(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    driver = FakeDriver(hangs=True)
    began = trio.current_time()
    await driver_start.stop(Pool(driver, 1))
    assert driver.killed.is_set()
    assert trio.current_time() - began <= driver.stop_timeout + driver_start.END_TIMEOUT
    assert "has not stopped" in caplog.text


async def test_cancelled_stop_is_completed() -> None:
    driver = FakeDriver()
    with trio.CancelScope() as scope:
        scope.cancel()
        await driver_start.stop(Pool(driver, 1))
    assert driver.stops == 1


@attrs.define(eq=False)
class Silent(FakeDriver):
    """A server that does not respond until its channels are closed."""

    requested: threading.Event = attrs.field(factory=threading.Event)

    def open_session(self) -> Any:
        self.requested.set()
        self.killed.wait()
        raise SparkGoneError("channel closed", begun=False)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Silent:
    driver = Silent()
    monkeypatch.setattr(ConnectDriver, "at", lambda url, settings: driver)
    return driver


async def test_silent_server_is_abandoned_in_time(silent: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_start, "CONNECT_TIMEOUT", 0.05)
    with pytest.raises(SparkGoneError, match="The fake does not answer") as raised:
        await driver_start.start(SparkOptions(master="sc://localhost:1"))
    assert not raised.value.begun
    assert silent.killed.is_set()


async def test_silent_server_does_not_delay_a_cancellation(silent: Silent) -> None:
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(driver_start.start, SparkOptions(master="sc://localhost:1"))
            await trio.to_thread.run_sync(silent.requested.wait)
            nursery.cancel_scope.cancel()
    assert silent.killed.is_set()
