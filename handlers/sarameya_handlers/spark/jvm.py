"""The JVM behind a SparkSession: started, listened to, ended. Blocking; run in worker threads.

pyspark would start it by itself, but in our process group, where the signal that asks us to stop (a terminal's,
a supervisor's) kills it before the last landing, and would leave it there until the Python process ends.
However it ends, also by SIGKILL, the JVM sees its standard input end and exits.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from sarameya import HandlerError
from sarameya_handlers.spark.errors import cause_of
from sarameya_handlers.spark.java import require_java, require_packages
from sarameya_handlers.spark.options import LOG_LEVELS, SparkOptions

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

END_TIMEOUT = 10.0
"""Seconds for a JVM to end by itself before it is killed."""

_OUT_OF_MEMORY = (-signal.SIGKILL, 52)
"""The exit codes that memory is the likely cause of: the kernel's killer, and Spark's own handler."""
_STARTED_BY_SPARK_SUBMIT = "PYSPARK_GATEWAY_PORT"


@attrs.frozen(slots=True)
class Jvm:
    """A running Spark. `_gateway` is pyspark's way into a JVM that we started, None for one that stays, and
    `_output` what that JVM prints."""

    session: SparkSession
    _gateway: Any
    _output: Output | None = None

    def expect_errors(self, seconds: float) -> None:
        """For so long, what Spark complains of is our own doing and is logged at DEBUG."""
        if self._output:
            self._output.expect_errors(seconds)

    @property
    def has_died(self) -> bool:
        """Whether the JVM has ended without being asked to; never true of one that is not ours."""
        return self._gateway is not None and self._gateway.proc.poll() is not None

    def death(self, within: float) -> str | None:
        """What is to be said of a JVM that has died or dies `within` seconds, None if it lives on."""
        if self._gateway is None:
            return None
        try:
            code = self._gateway.proc.wait(within)
        except subprocess.TimeoutExpired:
            return None
        return f"Spark's JVM has died (exit code {code}{'; out of memory?' if code in _OUT_OF_MEMORY else ''})"

    def stop(self) -> None:
        """Stop Spark and end the JVM, also one that is dead already or dies of it."""
        self.expect_errors(inf)
        try:
            if self.has_died:
                logger.error("%s", self.death(0))
                _forget(self.session)
            else:
                self.session.stop()
        except Exception as error:  # noqa: BLE001 - pyspark has many for a JVM that has just died; it ends all the same
            logger.error("Spark has not stopped in order: %s", cause_of(error))
            _forget(self.session)
        finally:
            if self._gateway:
                _end(self._gateway)

    def kill(self) -> None:
        """End a JVM that hangs, by force. `stop`, which hangs with it, then comes to its end."""
        if self._gateway:
            self._gateway.proc.kill()


def start(options: SparkOptions) -> Jvm:
    """Start Spark as `options` say. Raises HandlerError where something is missing, or in Spark's own words."""
    require_packages()
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise HandlerError(
            "Spark runs in this process already, and one process has one Spark: give its SparkSession to the sink"
        )
    _quieten()
    conf = SparkConf().setAll(list(options.properties.items()))
    is_there = SparkContext._gateway is not None or _STARTED_BY_SPARK_SUBMIT in os.environ
    gateway, output = (None, None) if is_there else _launch(conf, options.log_level)
    try:
        context = SparkContext(conf=conf, gateway=gateway)
        _choose_python(context)
        return Jvm(SparkSession(context), gateway, output)
    except Exception as error:
        cause = cause_of(error)  # while there is a JVM to tell it
        if gateway:
            _end(gateway)
        raise HandlerError(f"Spark does not start: {cause}") from error


def _quieten() -> None:
    """Keep pyspark's own loggers from repeating what is raised, and from telling of each connection they close."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    # A filter of a logger sees what is logged to it directly: of the root's, nothing that others pass on to it.
    logging.getLogger().addFilter(_wanted_at_root)
    py4j = logging.getLogger("py4j")
    if py4j.level == logging.NOTSET:
        py4j.setLevel(logging.WARNING)


def _wanted_at_root(record: logging.LogRecord) -> bool:
    """False for the stacks that py4j logs to the root logger when a JVM has died, unless its own logger is at DEBUG."""
    return Path(record.pathname).parent.name != "py4j" or logging.getLogger("py4j").isEnabledFor(logging.DEBUG)


def _launch(conf: SparkConf, log_level: str) -> tuple[Any, Output]:
    require_java()
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    output = Output(log_level)
    streams = {"stdout": output.write_end, "stderr": output.write_end}
    try:
        gateway = launch_gateway(conf, {**streams, "process_group": 0})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        failure = error
    else:
        output.launched()
        return gateway, output
    finally:
        os.close(output.write_end)
    raise HandlerError(f"Spark's JVM does not start: {output.complaints()}") from failure


def _choose_python(context: SparkContext) -> None:
    """Let local Python workers (UDFs) be this very Python, not whichever `python3` is first in the path."""
    if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def _end(gateway: Any) -> None:
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    try:
        process.wait(END_TIMEOUT)
    except subprocess.TimeoutExpired:
        logger.warning("Spark's JVM does not end within %.0f s and is killed", END_TIMEOUT)
        process.kill()
        process.wait()


def _forget(session: SparkSession) -> None:
    """Take a dead Spark out of pyspark's globals, so that another may start; `stop` would speak to the dead."""
    from pyspark.sql import SparkSession

    context = session.sparkContext
    context._jsc = None
    context.stop()
    SparkSession._instantiatedSession = SparkSession._activeSession = None


class Output:
    """What the JVM prints, passed on line by line to the `sarameya.spark` logger by a thread that ends with it.

    Until `launched` it is only kept, to become the error's text if the JVM does not start. Stacks, and errors that
    are expected, are for DEBUG.
    """

    def __init__(self, minimum: str) -> None:
        self._wanted = LOG_LEVELS[: LOG_LEVELS.index(minimum) + 1]
        self._complaints: deque[str] = deque(maxlen=5)
        self._launched = threading.Event()
        self._expected_until = -inf
        read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._pass_on, args=[read_end], name="spark-output", daemon=True)
        self._thread.start()

    def launched(self) -> None:
        self._launched.set()

    def expect_errors(self, seconds: float) -> None:
        self._expected_until = max(self._expected_until, time.monotonic() + seconds)

    def complaints(self) -> str:
        """The last errors, without their stacks, of a JVM that has ended."""
        self._thread.join(END_TIMEOUT)
        return "\n".join(self._complaints)

    def _pass_on(self, read_end: int) -> None:
        level = ""
        with open(read_end, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                text = line.rstrip()
                level = level_of(text, level)
                is_stack = text.startswith(("\tat ", "\t... "))
                if not self._launched.is_set():
                    if level in ("FATAL", "ERROR") and text.strip() and not is_stack:
                        self._complaints.append(text)
                elif level in self._wanted:
                    is_detail = is_stack or time.monotonic() < self._expected_until
                    logger.log(logging.DEBUG if is_detail else _PYTHON_LEVELS.get(level, logging.DEBUG), "%s", text)


_PYTHON_LEVELS = {"FATAL": logging.CRITICAL, "ERROR": logging.ERROR, "WARN": logging.WARNING, "INFO": logging.INFO}
_LOG_LINE = re.compile(rf"\d\S* \S+ ({'|'.join(LOG_LEVELS)}) ")
_CONTINUED = re.compile(r"\s|Caused by: |$")
_BANNER = re.compile(
    "WARNING: Using incubator modules|Using Spark's default log4j|To adjust logging level|"
    "Setting default log level|Setting Spark log level"
)


def level_of(line: str, before: str) -> str:
    """The level of a line that the JVM prints, when the line before it had the level `before`.

    Banners are INFO; what neither log4j nor a banner explains comes from a JVM in trouble and is ERROR.
    """
    if match := _LOG_LINE.match(line):
        return match[1]
    if _CONTINUED.match(line):
        return before
    return "INFO" if _BANNER.match(line) else "ERROR"
