"""Output of the JVM, through a real pipe."""

from __future__ import annotations

import logging
import os

import pytest

from sarameya_handlers.spark.engines.jvm.output import JvmOutput, level_of

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
def test_jvm_line_gets_a_log_level(line: str, before: str, level: str) -> None:
    assert level_of(line, before) == level


def printed(minimum: str, *lines: str, launched: bool = True, expected: float = 0.0) -> JvmOutput:
    output = JvmOutput(minimum)
    output.expect_errors(expected)
    if launched:
        output.start_logging()
    os.write(output.write_end, "\n".join(lines).encode())
    os.close(output.write_end)
    return output


def test_lines_are_logged_with_their_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "sarameya.spark")
    printed("ERROR", WARN, "\tof a warning", ERROR, "\tof an error").last_errors()
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("ERROR", ERROR),
        ("ERROR", "\tof an error"),
    ]


def test_stack_lines_are_logged_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "sarameya.spark")
    printed("ERROR", ERROR, "\tat org.apache.Spark", "Caused by: a cause", "\t... 12 more").last_errors()
    assert [record.levelname for record in caplog.records] == ["ERROR", "DEBUG", "ERROR", "DEBUG"]


def test_expected_errors_are_logged_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "sarameya.spark")
    printed("ERROR", ERROR, expected=60.0).last_errors()
    assert [(record.levelname, record.message) for record in caplog.records] == [("DEBUG", ERROR)]


def test_start_errors_are_returned_without_stacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = (WARN, "Exception in thread main: bad master", "\tat org.apache.Spark", "Caused by: a typing error", "")
    output = printed("ERROR", *lines, launched=False)
    assert output.last_errors() == "Exception in thread main: bad master\nCaused by: a typing error"
    assert caplog.records == []


def test_jvm_errors_are_logged_while_spark_logs_are_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sarameya.spark")
    jvm_error = "java.lang.OutOfMemoryError: Java heap space"
    printed(
        "OFF", WARN, ERROR, "\tat org.apache.Spark", "Caused by: a cause", jvm_error, "\tat java.lang.Thread"
    ).last_errors()
    assert [(record.levelname, record.message) for record in caplog.records] == [("ERROR", jvm_error)]
