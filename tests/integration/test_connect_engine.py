"""Spark Connect with a real server: sessions, cancellation, a server that dies, restarts, hangs, or refuses clients."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio

from sarameya import HandlerError
from sarameya_handlers import SparkOptions
from sarameya_handlers.spark.engines import pool
from sarameya_handlers.spark.engines.connect import ConnectDriver
from sarameya_handlers.spark.engines.engine import AdoptedEngine, SparkEngine
from sarameya_handlers.spark.errors import SparkGoneError
from tests.integration.connect_server import ConnectServer

pytestmark = pytest.mark.integration

DEADLINE = 120.0
POOLED = "ThreadPoolExecutor"
ENDLESS = "select count(*) from range(0, 10000000000000000, 1, 2)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    # Adaptive execution submits stages from its own threads. A stage submitted just after the interruption of its
    # operation runs to its end, and an endless one has no end.
    properties = {"spark.sql.adaptive.enabled": "false"}
    with ConnectServer(tmp_path_factory.mktemp("connect"), properties, token="s3cret") as server:
        yield server


@pytest.fixture(autouse=True)
def _restart_server(server: ConnectServer) -> None:
    """Restart the server if the last test has killed it."""
    if not server.is_running:
        server.start()


@contextmanager
def leaving_no_thread() -> Iterator[None]:
    """Check that pyspark's threads for Spark Connect end with the block. (gRPC's own are no Python threads.)"""
    before = set(threading.enumerate())
    yield
    assert [
        thread.name for thread in threading.enumerate() if thread.name.startswith(POOLED) and thread not in before
    ] == []


def options(server: ConnectServer, **more: Any) -> SparkOptions:
    return SparkOptions(master=server.url, **more)


def count(spark: Any, _: object) -> int:
    return int(spark.range(1000).count())


def endless(spark: Any, _: object) -> None:
    spark.sql(ENDLESS).collect()


async def test_each_job_has_a_session_with_its_settings(server: ConnectServer) -> None:
    def change(spark: Any, _: object) -> list[str]:
        spark.conf.set("spark.wap.id", "mine")
        together.wait(DEADLINE)
        return [spark.conf.get(name) for name in ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone")]

    def read(spark: Any, _: object) -> str | None:
        together.wait(DEADLINE)
        return spark.conf.get("spark.wap.id", None)

    together = threading.Barrier(2)
    found: list[Any] = []
    with leaving_no_thread():
        async with SparkEngine(options(server, conf={"spark.sql.shuffle.partitions": 3})) as engine:

            async def run(work: Callable[..., Any]) -> None:
                found.append(await engine.run(work, tag=work.__name__))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(run, change)
                nursery.start_soon(run, read)
    assert None in found
    assert ["3", "UTC"] in found


async def test_transform_may_use_functions_of_classic_spark(server: ConnectServer) -> None:
    from pyspark.sql import functions

    async with SparkEngine(options(server)) as engine:
        work = lambda spark, _: spark.range(10).filter(functions.col("id") > 3).count()  # noqa: E731
        assert await engine.run(work, tag="t") == 6


async def test_cancelled_work_frees_the_cores(server: ConnectServer) -> None:
    def stubborn(spark: Any, check: Callable[[], None]) -> None:
        for _ in range(3):
            try:
                spark.sql(ENDLESS).collect()
            except Exception:
                continue

    async with SparkEngine(options(server)) as engine:
        for work in (endless, stubborn):
            with trio.move_on_after(3.0) as scope:
                await engine.run(work, tag=work.__name__)
            assert scope.cancelled_caught
            with trio.fail_after(DEADLINE):
                assert await engine.run(count, tag="count") == 1000


async def test_server_killed_during_work_is_used_after_its_restart(
    server: ConnectServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with SparkEngine(options(server)) as first, SparkEngine(options(server)) as second:
        await first.run(count, tag="t0")
        failures: list[SparkGoneError] = []

        async def work(engine: SparkEngine) -> None:
            try:
                await engine.run(endless, tag="endless")
            except SparkGoneError as error:
                failures.append(error)
            assert await engine.run(count, tag="count") == 1000

        with trio.fail_after(2 * DEADLINE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work, first)
                nursery.start_soon(work, second)
                await trio.sleep(3.0)
                server.kill()
                await trio.sleep(6.0)
                await trio.to_thread.run_sync(server.start)
    assert all(error.begun for error in failures)
    assert len(failures) == 2
    logged = [record.message for record in caplog.records if record.name == "sarameya.spark"]
    assert "does not answer" in logged[0]
    assert logged[-1] == "Spark is back: interrupted work is retried"
    assert len(logged) <= 3
    assert "s3cret" not in caplog.text


async def test_restarted_server_gets_new_sessions(server: ConnectServer) -> None:
    async with SparkEngine(options(server)) as engine:
        await engine.run(count, tag="t1")
        server.kill()
        server.start()
        assert await engine.run(count, tag="t2") == 1000


async def test_session_closed_by_the_server_is_replaced(server: ConnectServer) -> None:
    async with SparkEngine(options(server)) as engine:
        # The server does the same to a session that was idle for an hour.
        await engine.run(lambda spark, _: spark.client.release_session(), tag="t1")
        assert await engine.run(count, tag="t2") == 1000


async def test_wait_for_a_dead_server_can_be_cancelled(server: ConnectServer) -> None:
    async with SparkEngine(options(server)) as engine:
        await engine.run(count, tag="t1")
        server.kill()
        for seconds in (0.5, 4.0):
            started = trio.current_time()
            with trio.move_on_after(seconds):
                await engine.run(count, tag="t2")
            assert trio.current_time() - started < seconds + 3.0


async def test_frozen_server_delays_neither_cancellation_nor_end(server: ConnectServer) -> None:
    try:
        with leaving_no_thread():
            async with SparkEngine(options(server)) as engine:
                await engine.run(count, tag="t1")
                server.freeze()
                started = trio.current_time()
                with trio.move_on_after(0.5):
                    await engine.run(count, tag="t2")
                assert trio.current_time() - started < 5.0
                started = trio.current_time()
            assert trio.current_time() - started < ConnectDriver.stop_timeout + 5.0
    finally:
        server.thaw()


async def test_hanging_server_is_abandoned_until_it_responds(
    server: ConnectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def freeze(spark: Any, _: object) -> int:
        server.freeze()
        return count(spark, _)

    async with SparkEngine(options(server)) as engine:
        await engine.run(count, tag="t1")
        monkeypatch.setattr(pool, "CHECK_INTERVAL", 0.5)
        monkeypatch.setattr(pool, "RESPONSE_TIMEOUT", 3.0)
        try:
            with pytest.raises(SparkGoneError, match="has not answered for 3 s, and is abandoned"):
                await engine.run(freeze, tag="t2")
        finally:
            server.thaw()
        monkeypatch.setattr(pool, "RESPONSE_TIMEOUT", DEADLINE)
        assert await engine.run(count, tag="t3") == 1000


async def test_adopted_connect_session_is_used_and_left_unchanged(server: ConnectServer) -> None:
    def use(spark: Any, _: object) -> tuple[int, str]:
        spark.range(1).createOrReplaceTempView("mine")
        return spark.table("numbers").count(), spark.conf.get("spark.sql.shuffle.partitions")

    with server.session({"spark.sql.shuffle.partitions": "5"}) as session:
        session.range(3).createOrReplaceTempView("numbers")
        async with AdoptedEngine(session) as engine:
            assert await engine.run(use, tag="t1") == (3, "5")
            with trio.move_on_after(3.0):
                await engine.run(endless, tag="t2")
            assert await engine.run(use, tag="t3") == (3, "5")
        assert session.table("numbers").count() == 3
        assert not session.catalog.tableExists("mine")


async def test_adopted_session_of_a_restarted_server_is_not_reopened(server: ConnectServer) -> None:
    with server.session() as session:
        async with AdoptedEngine(session) as engine:
            await engine.run(count, tag="t1")
            server.kill()
            server.start()
            for _ in range(2):
                with pytest.raises(SparkGoneError, match="give it SparkOptions instead") as raised:
                    await engine.run(count, tag="t2")
                assert not raised.value.retriable


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda url: {"master": url.replace("s3cret", "other")}, "Invalid authentication token; add its token"),
        (lambda url: {"master": url.split(";")[0]}, "token provided; add its token to the address: sc://"),
        (lambda url: {"master": url, "conf": {"spark.jars": "a.jar"}}, "set this property for the server itself"),
    ],
)
async def test_refusing_server_is_reported_with_its_reason(
    server: ConnectServer, change: Callable[[str], dict[str, Any]], expected: str
) -> None:
    with leaving_no_thread():
        with pytest.raises(HandlerError, match=expected) as raised:
            async with SparkEngine(SparkOptions(**change(server.url))):
                pass
    assert "s3cret" not in str(raised.value)
