from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import Any

import attrs
import pytest
from pyspark import SparkContext

from sarameya_handlers.spark.jvm import Jvm, Output, _wanted_at_root, level_of

ERROR = "26/11/21 04:41:33 ERROR Executor: Exception in task 1.0 in stage 4.0 (TID 6)"
WARN = "26/11/21 04:14:03 WARN NativeCodeLoader: Unable to load native-hadoop library"


@pytest.mark.parametrize(
    ("line", "before", "level"),
    [
        (ERROR, "", "ERROR"),
        (WARN, "ERROR", "WARN"),
        ("\tat org.apache.spark.Some.thing(Some.scala:1)", "WARN", "WARN"),
        ("Caused by: java.io.IOException", "ERROR", "ERROR"),
        ("", "WARN", "WARN"),
        ("WARNING: Using incubator modules: jdk.incubator.vector", "", "INFO"),
        ("Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties", "", "INFO"),
        ("# A fatal error has been detected by the Java Runtime Environment:", "WARN", "ERROR"),
        ("java.lang.OutOfMemoryError: Java heap space", "INFO", "ERROR"),
    ],
)
def test_level_of_a_line_that_the_jvm_prints(line: str, before: str, level: str) -> None:
    assert level_of(line, before) == level


def printed(minimum: str, *lines: str, launched: bool = True, expected: float = 0.0) -> Output:
    output = Output(minimum)
    output.expect_errors(expected)
    if launched:
        output.launched()
    os.write(output.write_end, "\n".join(lines).encode())
    os.close(output.write_end)
    return output


def test_lines_of_the_wanted_levels_reach_the_log_with_their_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "sarameya.spark")
    printed("ERROR", WARN, "\tof a warning", ERROR, "\tof an error").complaints()
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("ERROR", ERROR),
        ("ERROR", "\tof an error"),
    ]


def test_stacks_are_for_debug_and_their_errors_are_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "sarameya.spark")
    printed("ERROR", ERROR, "\tat org.apache.Spark", "Caused by: a cause", "\t... 12 more").complaints()
    assert [record.levelname for record in caplog.records] == ["ERROR", "DEBUG", "ERROR", "DEBUG"]


def test_errors_that_are_expected_are_for_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "sarameya.spark")
    printed("ERROR", ERROR, expected=60.0).complaints()
    assert [(record.levelname, record.message) for record in caplog.records] == [("DEBUG", ERROR)]


@pytest.mark.parametrize(
    ("path", "level", "wanted"),
    [
        ("/lib/py4j/java_gateway.py", logging.WARNING, False),
        ("/lib/py4j/java_gateway.py", logging.DEBUG, True),
        ("/app/main.py", logging.WARNING, True),
    ],
)
def test_root_logger_passes_all_but_what_py4j_logs_there(
    caplog: pytest.LogCaptureFixture, path: str, level: int, wanted: bool
) -> None:
    caplog.set_level(level, "py4j")
    assert _wanted_at_root(logging.LogRecord("root", logging.ERROR, path, 1, "said", None, None)) is wanted


def test_jvm_that_is_not_launched_yet_complains_to_the_caller_without_its_stacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = (WARN, "Exception in thread main: bad master", "\tat org.apache.Spark", "Caused by: a typing error", "")
    output = printed("ERROR", *lines, launched=False)
    assert output.complaints() == "Exception in thread main: bad master\nCaused by: a typing error"
    assert caplog.records == []


@attrs.define
class DyingContext:
    """A SparkContext that learns of its JVM's death only when it speaks to it."""

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


def gateway_of(program: str) -> Any:
    return FakeGateway(subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE))


def test_jvm_that_dies_while_it_is_stopped_is_forgotten_and_ended(caplog: pytest.LogCaptureFixture) -> None:
    gateway, session = gateway_of("import sys; sys.stdin.read()"), DyingSession()
    Jvm(session, gateway).stop()
    assert session.sparkContext.stopped
    assert gateway.closed
    assert gateway.proc.returncode == 0
    assert SparkContext._gateway is None
    assert "Spark has not stopped in order: ConnectionRefusedError" in caplog.text


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import os; os.kill(os.getpid(), 9)", "Spark's JVM has died (exit code -9; out of memory?)"),
        ("raise SystemExit(1)", "Spark's JVM has died (exit code 1)"),
    ],
)
def test_death_of_a_jvm_is_told_with_its_exit_code(program: str, told: str) -> None:
    gateway = gateway_of(program)
    jvm = Jvm(DyingSession(), gateway)
    assert jvm.death(30.0) == told
    assert jvm.has_died
    jvm.stop()


def test_jvm_that_lives_has_no_death_until_it_is_killed() -> None:
    jvm = Jvm(DyingSession(), gateway_of("import sys; sys.stdin.read()"))
    assert not jvm.has_died
    assert jvm.death(0.01) is None
    jvm.kill()
    assert jvm.death(30.0) is not None
    jvm.stop()
