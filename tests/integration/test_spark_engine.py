"""Spark's lifetime with a real JVM: start, stop, death, signals, and what is said when it does not start."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark import SparkContext

from sarameya import HandlerError
from sarameya_handlers import LandingError, SparkOptions
from sarameya_handlers.spark import engine as engine_module
from sarameya_handlers.spark import jvm
from sarameya_handlers.spark.engine import SparkEngine

pytestmark = pytest.mark.integration

OPTIONS = SparkOptions(master="local[1]")
DEADLINE = 120.0


def jvm_pid() -> int:
    return int(SparkContext._gateway.proc.pid)


def is_running(pid: int) -> bool:
    """Whether the process is there and no zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: object) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "not within the deadline"
        time.sleep(0.05)


async def test_spark_starts_as_asked_and_leaves_no_process_and_no_thread_when_stopped() -> None:
    async with SparkEngine(OPTIONS) as engine:
        pid = jvm_pid()
        assert await engine.run(lambda spark, _: spark.range(1000).count(), tag="t1") == 1000
        conf = await engine.run(lambda spark, _: spark.conf.getAll, tag="t2")
        assert conf["spark.sql.session.timeZone"] == "UTC"
        assert conf["spark.ui.enabled"] == "false"
    assert not is_running(pid)
    # pyspark's finalizer looks once a second whether it may end; trio's idle workers are trio's.
    until(lambda: [t for t in threading.enumerate() if not t.name.startswith(("MainThread", "Trio"))] == [])


async def test_spark_whose_jvm_has_died_fails_the_work_and_can_be_started_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with SparkEngine(OPTIONS) as engine:
        os.kill(jvm_pid(), signal.SIGKILL)
        with pytest.raises(LandingError, match=r"JVM has died \(exit code -9; out of memory"):
            await engine.run(lambda spark, _: spark.range(1000).count(), tag="t1")
        async with SparkEngine(OPTIONS) as next_engine:
            assert await next_engine.run(lambda spark, _: spark.range(1000).count(), tag="t2") == 1000
    assert [record for record in caplog.records if record.name == "root"] == []


async def test_jvm_that_is_frozen_is_killed_when_it_is_stopped_and_another_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "STOP_TIMEOUT", jvm.END_TIMEOUT + 1.0)
    async with SparkEngine(OPTIONS):
        pid = jvm_pid()
        os.kill(pid, signal.SIGSTOP)
    assert not is_running(pid)
    async with SparkEngine(OPTIONS) as engine:
        assert await engine.run(lambda spark, _: spark.range(1000).count(), tag="t") == 1000


@pytest.fixture
def garbage() -> Iterator[None]:
    """Collected at the end: pyspark leaves it to chance when the pipe to a JVM that has failed is closed."""
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.usefixtures("garbage")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (SparkOptions(conf={"spark.serializer": "no.such.Class"}), r"Spark does not start: .*no.such.Class"),
        (SparkOptions(conf={"spark.driver.memory": "little"}), r"(?s)JVM does not start:.*little"),
        (SparkOptions(master="nonsense"), r"JVM does not start: .*Master must either be"),
    ],
)
async def test_spark_that_does_not_start_says_why_and_leaves_nothing(options: SparkOptions, told: str) -> None:
    with pytest.raises(HandlerError, match=told):
        async with SparkEngine(options):
            pass
    assert SparkContext._gateway is None
    assert SparkContext._active_spark_context is None


PROGRAM = """
import signal, sys, trio
from py4j.protocol import Py4JError
from pyspark import SparkContext
from sarameya_handlers import SparkOptions
from sarameya_handlers.spark.engine import SparkEngine

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
    """The program above in a process group of its own, as a terminal or a supervisor would start it."""
    command = [sys.executable, "-c", PROGRAM, ending]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_signals_to_the_process_group_leave_spark_working() -> None:
    """Ctrl-C in a terminal goes to the whole group; the last landing still needs Spark then."""
    with program("end") as process:
        pid = int(process.stdout.readline())
        for number in (signal.SIGINT, signal.SIGTERM):
            os.killpg(process.pid, number)
            assert process.stdout.readline().strip() == number.name
        assert process.stdout.readline().strip() == "1000"
        told = process.stderr.read()
        assert process.wait(DEADLINE) == 0
    assert not is_running(pid)
    assert told == ""


def test_jvm_ends_when_its_process_is_killed() -> None:
    with program("wait") as process:
        pid = int(process.stdout.readline())
        assert is_running(pid)
        process.kill()
        until(lambda: not is_running(pid))
