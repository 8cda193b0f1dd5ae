from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import attrs
import pytest
from pyspark import SparkContext

from sarameya_handlers.spark.engines.jvm.spark_jvm import Jvm, _wanted_at_root


@pytest.mark.parametrize(
    ("path", "level", "wanted"),
    [
        ("/lib/py4j/java_gateway.py", logging.WARNING, False),
        ("/lib/py4j/java_gateway.py", logging.DEBUG, True),
        ("/app/main.py", logging.WARNING, True),
    ],
)
def test_root_logger_drops_only_py4j_records(
    caplog: pytest.LogCaptureFixture, path: str, level: int, wanted: bool
) -> None:
    caplog.set_level(level, "py4j")
    assert _wanted_at_root(logging.LogRecord("root", logging.ERROR, path, 1, "said", None, None)) is wanted


@attrs.define
class DyingContext:
    """A SparkContext that notices its JVM's death only when it calls the JVM."""

    _jsc: object | None = attrs.field(factory=object, alias="_jsc")
    stopped: bool = False

    def stop(self) -> None:
        if self._jsc is not None:
            raise ConnectionRefusedError(111, "Connection refused")
        self.stopped = True


@attrs.define
class DyingSession:
    sparkContext: DyingContext = attrs.field(factory=DyingContext)

    def stop(self) -> None:
        self.sparkContext.stop()


@attrs.define
class FakeGateway:
    proc: subprocess.Popen[bytes]
    closed: bool = False

    def shutdown(self) -> None:
        self.closed = True

    def remove_files(self) -> None:
        assert self.proc.returncode is not None


def gateway_of(program: str) -> Any:
    return FakeGateway(subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE))


def test_jvm_is_ended_and_forgotten_if_stop_fails(caplog: pytest.LogCaptureFixture) -> None:
    gateway, session = gateway_of("import sys; sys.stdin.read()"), DyingSession()
    Jvm(session, gateway).stop()
    assert session.sparkContext.stopped
    assert gateway.closed
    assert gateway.proc.returncode == 0
    assert SparkContext._gateway is None
    assert "Spark has not stopped properly: ConnectionRefusedError" in caplog.text


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import os; os.kill(os.getpid(), 9)", "Spark's JVM has died (exit code -9; out of memory?)"),
        ("raise SystemExit(1)", "Spark's JVM has died (exit code 1)"),
    ],
)
def test_jvm_death_is_logged_with_its_exit_code(program: str, expected: str, caplog: pytest.LogCaptureFixture) -> None:
    gateway = gateway_of(program)
    jvm = Jvm(DyingSession(), gateway)
    assert jvm.death(30.0) == expected
    assert jvm.has_died
    jvm.stop(is_dead=True)
    assert caplog.records == []


def test_unnoticed_jvm_death_is_logged_on_stop(caplog: pytest.LogCaptureFixture) -> None:
    gateway = gateway_of("raise SystemExit(1)")
    gateway.proc.wait()
    Jvm(DyingSession(), gateway).stop()
    assert "Spark's JVM has died (exit code 1)" in caplog.text


def test_jvm_is_alive_until_it_is_killed() -> None:
    jvm = Jvm(DyingSession(), gateway_of("import sys; sys.stdin.read()"))
    assert not jvm.has_died
    assert jvm.death(0.01) is None
    jvm.kill()
    assert jvm.death(30.0) is not None
    jvm.stop()
