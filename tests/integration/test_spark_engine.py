"""Classic Spark with a real JVM: start, stop, death, cancellation, signals, and the errors of a failed start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
import trio
from pyspark import SparkContext

from sarameya import HandlerError
from sarameya_handlers import SparkOptions
from sarameya_handlers.spark.engines import pool
from sarameya_handlers.spark.engines.classic import ClassicDriver
from sarameya_handlers.spark.engines.engine import AdoptedEngine, SparkEngine
from sarameya_handlers.spark.engines.jvm import spark_jvm
from sarameya_handlers.spark.errors import SparkGoneError, SparkStartError
from tests.integration.processes import children, is_running

pytestmark = [pytest.mark.integration, pytest.mark.cold]

OPTIONS = SparkOptions(master="local[1]")
DEADLINE = 120.0


def jvm_pid() -> int:
    return int(SparkContext._gateway.proc.pid)


@attrs.frozen
class Jvms:
    """JVMs that this process has started, without those of earlier tests."""

    before: set[int] = attrs.field(factory=lambda: set(children("java")))

    def now(self) -> set[int]:
        return set(children("java")) - self.before


@pytest.fixture
def jvms() -> Jvms:
    return Jvms()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "not within the deadline"
        time.sleep(0.05)


async def test_stopped_spark_leaves_no_process_and_no_thread() -> None:
    before = set(threading.enumerate())
    async with SparkEngine(OPTIONS) as engine:
        pid = jvm_pid()
        assert await engine.run(lambda spark, _: spark.range(1000).count(), tag="t1") == 1000
        conf = await engine.run(lambda spark, _: spark.conf.getAll, tag="t2")
        assert conf["spark.sql.session.timeZone"] == "UTC"
        assert conf["spark.ui.enabled"] == "false"
    assert not is_running(pid)
    # pyspark's finalizer checks once a second whether it may end. Idle worker threads belong to trio.
    until(lambda: all(thread in before or thread.name.startswith("Trio") for thread in threading.enumerate()))


ENDLESS = "select count(*) from range(0, 10000000000000000, 1, 2)"


def count(spark: Any, _: object) -> int:
    return int(spark.range(1000).count())


async def until_a_job_runs() -> None:
    with trio.fail_after(DEADLINE):
        while not SparkContext._active_spark_context.statusTracker().getActiveJobsIds():
            await trio.sleep(0.05)


async def test_concurrent_work_has_separate_sessions() -> None:
    def change(spark: Any, _: object) -> list[str]:
        before = spark.conf.get("spark.sql.shuffle.partitions")
        spark.conf.set("spark.wap.id", "mine")
        together.wait(DEADLINE)
        return [before, spark.conf.get("spark.sql.session.timeZone")]

    def read_setting(spark: Any, _: object) -> str | None:
        together.wait(DEADLINE)
        return spark.conf.get("spark.wap.id", None)

    together = threading.Barrier(2)
    found: list[Any] = []
    options = SparkOptions(master="local[1]", conf={"spark.sql.shuffle.partitions": 3})
    async with SparkEngine(options) as engine:
        async with trio.open_nursery() as nursery:

            async def run(work: Callable[..., Any]) -> None:
                found.append(await engine.run(work, tag=work.__name__))

            nursery.start_soon(run, change)
            nursery.start_soon(run, read_setting)
    assert None in found
    assert ["3", "UTC"] in found


# pyspark leaves the socket on which it receives rows to the garbage collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning")
async def test_adopted_session_is_used_and_left_unchanged() -> None:
    def use(spark: Any, _: object) -> list[Any]:
        spark.range(1).createOrReplaceTempView("mine")
        rows = spark.sql("select twice(id) as n from numbers order by n").collect()
        return [spark.conf.get("spark.sql.shuffle.partitions"), [row.n for row in rows]]

    running = spark_jvm.start(OPTIONS)
    try:
        session = running.session
        session.conf.set("spark.sql.shuffle.partitions", "5")
        session.range(3).createOrReplaceTempView("numbers")
        session.udf.register("twice", lambda n: 2 * n, "bigint")
        async with AdoptedEngine(session) as engine:
            assert await engine.run(use, tag="t1") == ["5", [0, 2, 4]]
        assert session.table("numbers").count() == 3
        assert not session.catalog.tableExists("mine")
        session.sparkContext.stop()
        assert ClassicDriver(session).death(session) == "Spark's context has been stopped"
    finally:
        running.stop()


async def test_jvm_killed_during_work_is_replaced_once(
    jvms: Jvms,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with SparkEngine(OPTIONS) as first, SparkEngine(OPTIONS) as second:
        failures: list[SparkGoneError] = []

        async def work(engine: SparkEngine) -> None:
            try:
                await engine.run(lambda spark, _: spark.sql(ENDLESS).collect(), tag="endless")
            except SparkGoneError as error:
                failures.append(error)
            assert await engine.run(count, tag="count") == 1000

        async with trio.open_nursery() as nursery:
            for engine in (first, second):
                nursery.start_soon(work, engine)
            await until_a_job_runs()
            killed = jvm_pid()
            os.kill(killed, signal.SIGKILL)
        assert [str(error) for error in failures] == ["Spark's JVM has died (exit code -9; out of memory?)"] * 2
        assert all(error.begun for error in failures)
        assert jvms.now() == {jvm_pid()}
        assert jvm_pid() != killed
    logged = [record.message for record in caplog.records if record.name in ("root", "sarameya.spark")]
    assert logged == [str(failures[0]), "Spark is back: interrupted work is retried"]


async def test_jvm_killed_between_works_is_replaced(jvms: Jvms) -> None:
    async with SparkEngine(OPTIONS) as engine:
        await engine.run(count, tag="t1")
        for number in range(2):
            os.kill(jvm_pid(), signal.SIGKILL)
            assert await engine.run(count, tag=f"t{number}") == 1000
        pid = jvm_pid()
    assert not is_running(pid)
    assert jvms.now() == set()


@pytest.mark.exhaustive
async def test_jvm_hanging_under_work_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "CHECK_INTERVAL", 0.5)
    monkeypatch.setattr(pool, "RESPONSE_TIMEOUT", 3.0)
    monkeypatch.setattr(ClassicDriver, "stop_timeout", 1.0)
    async with SparkEngine(OPTIONS) as engine:
        frozen = jvm_pid()

        def freeze(spark: Any, _: object) -> int:
            os.kill(frozen, signal.SIGSTOP)
            return count(spark, _)

        with pytest.raises(SparkGoneError, match="JVM has not answered for 3 s, and is abandoned"):
            await engine.run(freeze, tag="t1")
        monkeypatch.setattr(pool, "RESPONSE_TIMEOUT", DEADLINE)
        assert await engine.run(count, tag="t2") == 1000
    assert not is_running(frozen)


@pytest.mark.exhaustive
async def test_context_stopped_under_work_is_replaced() -> None:
    async with SparkEngine(OPTIONS) as engine:

        def stop(spark: Any, _: object) -> None:
            spark.sparkContext._jsc.sc().stop()
            spark.range(1000).count()

        with pytest.raises(SparkGoneError, match="context has been stopped"):
            await engine.run(stop, tag="t1")
        assert await engine.run(count, tag="t2") == 1000


async def test_cancelled_work_frees_the_cores() -> None:
    def stubborn(spark: Any, _: object) -> None:
        for _ in range(3):
            try:
                spark.sql(ENDLESS).collect()
            except Exception:
                continue

    async with SparkEngine(OPTIONS) as engine:
        for work in (lambda spark, _: spark.sql(ENDLESS).collect(), stubborn):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda work=work: engine.run(work, tag="endless"))
                await until_a_job_runs()
                nursery.cancel_scope.cancel()
            with trio.fail_after(DEADLINE):
                assert await engine.run(count, tag="count") == 1000


async def test_cancelled_start_leaves_no_jvm(jvms: Jvms) -> None:
    for seconds in (0.5, 3.0):
        with trio.move_on_after(seconds) as scope:
            async with SparkEngine(OPTIONS):
                pass
        assert scope.cancelled_caught or seconds == 3.0
        assert jvms.now() == set()
        assert SparkContext._gateway is None
        assert SparkContext._active_spark_context is None


async def test_frozen_jvm_is_killed_and_can_be_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ClassicDriver, "stop_timeout", 1.0)
    async with SparkEngine(OPTIONS):
        pid = jvm_pid()
        os.kill(pid, signal.SIGSTOP)
    assert not is_running(pid)
    async with SparkEngine(OPTIONS) as engine:
        assert await engine.run(count, tag="t") == 1000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (SparkOptions(conf={"spark.serializer": "no.such.Class"}), r"Spark does not start: .*no.such.Class"),
        (SparkOptions(conf={"spark.driver.memory": "little"}), r"(?s)JVM does not start:.*little"),
        (SparkOptions(master="nonsense"), r"JVM does not start: .*Master must either be"),
    ],
)
async def test_failed_start_is_reported_and_leaves_nothing(jvms: Jvms, options: SparkOptions, expected: str) -> None:
    with pytest.raises(HandlerError, match=expected):
        async with SparkEngine(options):
            pass
    assert jvms.now() == set()
    assert SparkContext._gateway is None
    assert SparkContext._active_spark_context is None


PROGRAM = """
import signal, sys, trio
from py4j.protocol import Py4JError
from pyspark import SparkContext
from sarameya_handlers import SparkOptions
from sarameya_handlers.spark.engines.engine import SparkEngine

async def main():
    async with SparkEngine(SparkOptions(master="local[1]")) as engine:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            print(SparkContext._gateway.proc.pid, flush=True)
            for _ in range(2):
                print(signal.Signals(await anext(signals)).name, flush=True)
            print(await engine.run(lambda spark, _: spark.range(1000).count(), tag="t"), flush=True)
            if sys.argv[1] == "wait":
                await trio.sleep_forever()

trio.run(main)
"""


@contextmanager
def program(ending: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program above in its own process group, as a terminal or a supervisor would start it."""
    command = [sys.executable, "-c", PROGRAM, ending]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_signals_to_the_process_group_leave_spark_working() -> None:
    """Ctrl-C in a terminal signals the whole group, while the last landing still needs Spark."""
    with program("end") as process:
        pid = int(process.stdout.readline())
        for number in (signal.SIGINT, signal.SIGTERM):
            os.killpg(process.pid, number)
            assert process.stdout.readline().strip() == number.name
        assert process.stdout.readline().strip() == "1000"
        logged = process.stderr.read()
        assert process.wait(DEADLINE) == 0
    assert not is_running(pid)
    assert logged == ""


def test_jvm_ends_when_its_process_is_killed() -> None:
    with program("wait") as process:
        pid = int(process.stdout.readline())
        assert is_running(pid)
        process.kill()
        until(lambda: not is_running(pid))


def test_jvm_dying_before_its_session_can_be_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A JVM is killed like this when its start is cancelled."""

    def die(context: SparkContext) -> None:
        os.kill(jvm_pid(), signal.SIGKILL)
        context._jsc.sc().version()

    with monkeypatch.context() as patched:
        patched.setattr(spark_jvm, "_choose_python", die)
        with pytest.raises(SparkStartError, match="Spark does not start"):
            spark_jvm.start(OPTIONS)
    assert SparkContext._active_spark_context is None
    assert SparkContext._gateway is None
