"""Engines that share a Spark or adopt one, and its death. Spark is faked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
import trio

from sarameya import ConfigError, HandlerError
from sarameya_handlers import SparkOptions
from sarameya_handlers.spark.engines import driver_start
from sarameya_handlers.spark.engines import engine as engine_module
from sarameya_handlers.spark.engines.engine import AdoptedEngine, SparkEngine, engine_of
from sarameya_handlers.spark.engines.pool import Pool
from sarameya_handlers.spark.errors import SparkGoneError
from tests.handlers.spark.engines.fake_driver import FakeDriver


def number(session: Any, _: object) -> int:
    return int(session.number)


@attrs.define(eq=False)
class FakeSparks:
    """A fake of `driver_start.start` and `driver_start.stop`. It records the pools that it starts and stops."""

    pools: list[Pool] = attrs.field(factory=list)
    stopped: list[Pool] = attrs.field(factory=list)
    refusal: Exception | None = None
    """The exception that opening a session raises."""

    @property
    def drivers(self) -> list[FakeDriver]:
        return [pool.driver for pool in self.pools]

    @property
    def running(self) -> int:
        return len(self.pools) - len(self.stopped)

    async def start(self, options: SparkOptions) -> Pool:
        await trio.lowlevel.checkpoint()
        if options.app_name == "broken":
            raise HandlerError("Spark does not start")
        self.pools.append(Pool(FakeDriver(refusal=self.refusal), options.max_jobs))
        return self.pools[-1]

    async def stop(self, pool: Pool, include_busy: bool = True) -> None:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
        self.stopped.append(pool)


@pytest.fixture
def sparks(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSparks]:
    fake = FakeSparks()
    monkeypatch.setattr(driver_start, "start", fake.start)
    monkeypatch.setattr(driver_start, "stop", fake.stop)
    yield fake
    assert engine_module._shared is None


async def test_engines_of_one_process_share_one_spark(sparks: FakeSparks) -> None:
    async with SparkEngine(SparkOptions()) as first:
        async with SparkEngine(SparkOptions()) as second:
            assert await first.run(number, tag="t1") == await second.run(number, tag="t2") == 1
            assert (len(sparks.pools), sparks.running) == (1, 1)
        assert sparks.running == 1
    assert sparks.running == 0


async def test_engines_entered_together_start_one_spark(sparks: FakeSparks) -> None:
    all_inside = trio.Event()
    inside = 0

    async def use() -> None:
        nonlocal inside
        async with SparkEngine(SparkOptions()):
            inside += 1
            if inside == 5:
                all_inside.set()
            await all_inside.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(use)
    assert (len(sparks.pools), sparks.running) == (1, 0)


async def test_engine_entered_after_the_last_exit_restarts_spark(sparks: FakeSparks) -> None:
    for _ in range(2):
        async with SparkEngine(SparkOptions()):
            pass
    assert (len(sparks.pools), sparks.running) == (2, 0)


async def test_engine_with_other_options_is_refused_without_secrets(sparks: FakeSparks) -> None:
    async with SparkEngine(SparkOptions(conf={"spark.hadoop.fs.s3a.secret.key": "s3cret"})):
        with pytest.raises(HandlerError, match=r"\(conf, max_jobs\).*the same spark options") as raised:
            async with SparkEngine(SparkOptions(max_jobs=3)):
                pass
        assert "s3cret" not in str(raised.value)
        assert sparks.running == 1


async def test_failed_start_is_raised_and_can_be_retried(sparks: FakeSparks) -> None:
    with pytest.raises(HandlerError, match="does not start"):
        async with SparkEngine(SparkOptions(app_name="broken")):
            pass
    async with SparkEngine(SparkOptions()):
        assert sparks.running == 1


async def test_cancelled_engine_stops_its_spark(sparks: FakeSparks) -> None:
    with trio.CancelScope() as scope:
        async with SparkEngine(SparkOptions()):
            scope.cancel()
            await trio.sleep_forever()
    assert sparks.running == 0


async def test_work_fails_with_its_spark_and_later_work_gets_a_new_one(
    sparks: FakeSparks,
) -> None:
    def die(*_: object) -> None:
        sparks.drivers[0].dead = "Spark's JVM has died"
        raise ConnectionRefusedError

    async with SparkEngine(SparkOptions()) as first, SparkEngine(SparkOptions()) as second:
        with pytest.raises(SparkGoneError, match="JVM has died") as raised:
            await first.run(die, tag="t1")
        assert raised.value.begun
        assert await second.run(number, tag="t2") == 1
        assert await first.run(number, tag="t3") == 1
        assert (len(sparks.pools), sparks.stopped) == (2, sparks.pools[:1])


async def test_work_not_yet_started_moves_to_the_next_spark(sparks: FakeSparks) -> None:
    async with SparkEngine(SparkOptions()) as engine:
        await engine.run(number, tag="t1")
        sparks.drivers[0].dead = "gone"
        await engine.run(number, tag="t2")
        assert [len(driver.sessions) for driver in sparks.drivers] == [1, 1]


async def test_spark_without_a_free_session_fails_in_time(sparks: FakeSparks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "RETURN_TIMEOUT", 0.0)
    sparks.refusal = SparkGoneError("there is no room", begun=False)
    async with SparkEngine(SparkOptions()) as engine:
        with pytest.raises(SparkGoneError, match="there is no room"):
            await engine.run(number, tag="t1")


async def test_connect_functions_are_active_while_an_engine_is_open(sparks: FakeSparks) -> None:
    options = SparkOptions(master="sc://localhost:15002")
    async with SparkEngine(options):
        async with SparkEngine(options):
            assert "SPARK_CONNECT_MODE_ENABLED" in os.environ
        assert "SPARK_CONNECT_MODE_ENABLED" in os.environ
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ


@attrs.define(eq=False)
class UsersSession:
    """A SparkSession that the user has started."""

    sparkContext: object = None


@pytest.fixture
def adopted(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver()
    monkeypatch.setattr(engine_module, "_driver_of", lambda session: driver)
    return driver


async def test_adopted_engine_closes_only_its_own_sessions(adopted: FakeDriver) -> None:
    async with AdoptedEngine(UsersSession(), max_jobs=3) as engine:
        assert engine.max_jobs == 3
        assert await engine.run(number, tag="t") == 1
    assert adopted.closed == adopted.sessions
    assert adopted.stops == 1


async def test_dead_adopted_spark_is_not_restarted(adopted: FakeDriver) -> None:
    async with AdoptedEngine(UsersSession()) as engine:
        await engine.run(number, tag="t1")
        adopted.dead = "Spark's context has been stopped"
        for _ in range(2):
            with pytest.raises(SparkGoneError, match=r"stopped; .* give it SparkOptions instead") as raised:
                await engine.run(number, tag="t2")
            assert not raised.value.retriable
            assert not raised.value.passes
            assert not raised.value.begun


def test_non_spark_object_cannot_be_adopted() -> None:
    with pytest.raises(HandlerError, match="must be SparkOptions, a SparkSession, or 'sc://host:port'"):
        AdoptedEngine(object())


def test_engine_is_chosen_by_the_users_value() -> None:
    engine = SparkEngine(SparkOptions(max_jobs=7))
    assert engine_of(engine) is engine
    assert engine_of(SparkOptions(max_jobs=5)).max_jobs == 5
    assert engine_of(None).max_jobs == SparkOptions().max_jobs
    assert isinstance(engine_of("sc://localhost:15002"), SparkEngine)
    assert isinstance(engine_of(UsersSession()), AdoptedEngine)
    with pytest.raises(ConfigError, match="sc://host:port"):
        engine_of("sc:/localhost")
