"""Errors for a JVM that does not start, by its exit code and output."""

from __future__ import annotations

import pytest

from sarameya import HandlerError
from sarameya_handlers.spark.engines.jvm.start_failures import exit_error, start_error
from sarameya_handlers.spark.errors import SparkStartError


@pytest.mark.parametrize(
    ("code", "stderr"),
    [
        (-9, ""),
        (137, "line 73: 12 Killed"),  # from a shell whose child the kernel has killed
        (-9, 'Exception in thread "main" java.lang.IllegalArgumentException: half a word'),
        (1, ""),
        (1, "cannot create temp file for here-document: No space left on device"),
        (1, "Could not reserve enough space for object heap\nError: Could not create the Java Virtual Machine."),
        (1, 'Exception in thread "main" java.io.IOException: Failed to create a temp directory'),
        (1, 'Exception in thread "main" java.net.BindException: Cannot assign requested address'),
        (1, "java.lang.RuntimeException: [unresolved dependency: a#b;1: not found]"),
        (1, "java.lang.IllegalArgumentException\nCaused by: java.io.IOException: No space left on device"),
        (1, "java.lang.IllegalArgumentException: java.net.UnknownHostException: namenode"),
        (1, "java.lang.NoClassDefFoundError: Could not initialize class org.xerial.snappy.Snappy"),
    ],
)
def test_fault_64_passing_start_failure_is_not_permanent(code: int, stderr: str) -> None:
    failure = exit_error(code, stderr)
    assert isinstance(failure, SparkStartError)
    assert not failure.permanent


@pytest.mark.parametrize(
    "stderr",
    [
        "Invalid maximum heap size: -Xmxlittle\nError: Could not create the Java Virtual Machine.",
        "Unrecognized option: -nonsense",
        "java.io.FileNotFoundException: File file:/nope.jar does not exist",
        "Error: Failed to load class a.B.",
        "Error: Invalid or corrupt jarfile /nope.jar",
        "Unrecognized VM option 'UseNothing'",
        'Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with spark',
        "java.lang.NumberFormatException: Size must be specified as bytes (b)",
        "java.lang.ClassNotFoundException: no.such.Plugin",
        "java.lang.NoSuchMethodError: 'void a.B.c()'",
        "org.apache.spark.SparkIllegalArgumentException: [INVALID_DRIVER_MEMORY]",
    ],
)
def test_configuration_failure_is_permanent(stderr: str) -> None:
    failure = exit_error(1, stderr)
    assert isinstance(failure, HandlerError)
    assert stderr in str(failure)


def test_killing_signal_is_named() -> None:
    assert str(exit_error(-9, "")) == "Spark's JVM was killed by signal 9 while it started; out of memory?"
    assert str(exit_error(143, "")) == "Spark's JVM was killed by signal 15 while it started"


def test_exit_code_that_is_no_signal_keeps_the_output() -> None:
    assert "no such option" in str(exit_error(255, "no such option"))


def test_all_output_is_searched_and_quoted() -> None:
    failure = start_error("Spark does not start: a", "a\nCaused by: java.lang.ClassNotFoundException: x")
    assert (type(failure), str(failure)) == (HandlerError, "Spark does not start: a")
