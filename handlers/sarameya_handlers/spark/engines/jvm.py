"""The JVM behind a classic SparkSession: Spark in it started and stopped. Blocking; run in worker threads."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from sarameya import HandlerError
from sarameya_handlers.spark.engines.java import require_packages
from sarameya_handlers.spark.engines.jvm_launch import end_process, launch
from sarameya_handlers.spark.engines.jvm_output import Output
from sarameya_handlers.spark.engines.lease import share_leases
from sarameya_handlers.spark.engines.start_failures import of_text
from sarameya_handlers.spark.errors import SparkStartError, cause_of, text_of
from sarameya_handlers.spark.options import SparkOptions

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

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

    def stop(self, *, is_dead: bool = False) -> None:
        """Stop Spark and end the JVM, also one that dies of it, or is dead already: told here unless `is_dead`."""
        self.expect_errors(inf)
        try:
            if self.has_died:
                if not is_dead:
                    logger.error("%s", self.death(0))
                _forget(self.session.sparkContext)
            else:
                self.session.stop()
        except Exception as error:  # noqa: BLE001 - pyspark has many for a JVM that has just died; it ends all the same
            logger.error("Spark has not stopped in order: %s", cause_of(error))
            _forget(self.session.sparkContext)
        finally:
            if self._gateway:
                _end(self._gateway)

    def kill(self) -> None:
        """End a JVM that hangs, by force. `stop`, which hangs with it, then comes to its end."""
        if self._gateway:
            self._gateway.proc.kill()


def start(
    options: SparkOptions,
    *,
    environment: Mapping[str, str] | None = None,
    launched: Callable[[subprocess.Popen[bytes]], None] = lambda process: None,
    check: Callable[[], None] = lambda: None,
) -> Jvm:
    """Start Spark as `options` say. Raises HandlerError where a person must change something first, SparkStartError for
    every other reason, in Spark's own words.

    `environment` is the JVM's, beside ours. `launched` is told of its process once there is one: who kills that has
    `start` fail. Until Spark itself starts in it, `check` is called again and again, and may raise.
    """
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
    output = None if is_there else Output(options.log_level)
    gateway = output and launch(conf.getAll(), output, environment or {}, launched, check)
    try:
        context = SparkContext(conf=conf, gateway=gateway)
        _choose_python(context)
        share_leases()
        return Jvm(SparkSession(context), gateway, output)
    except Exception as error:
        failure = _failure(gateway, error)  # while there is a JVM to tell it
        if gateway:
            # Also one whose JVM was killed when its context was there, and its session not yet.
            _forget(SparkContext._active_spark_context)
            _end(gateway)
        raise failure from error


def _failure(gateway: Any, error: Exception) -> HandlerError | SparkStartError:
    """Spark's own words for why it has not started in a JVM that answered."""
    told, text = f"Spark does not start: {cause_of(error)}", text_of(error)
    has_died = gateway is not None and gateway.proc.poll() is not None
    return SparkStartError(told) if has_died or text is None else of_text(told, text)


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


def _choose_python(context: SparkContext) -> None:
    """Let local Python workers (UDFs) be this very Python, not whichever `python3` is first in the path."""
    if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def _end(gateway: Any) -> None:
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    end_process(gateway.proc)
    gateway.leave()


def _forget(context: SparkContext | None) -> None:
    """Take a dead Spark out of pyspark's globals, so that another may start; `stop` would speak to the dead."""
    from pyspark.sql import SparkSession

    if context is not None:
        context._jsc = None
        context.stop()
    SparkSession._instantiatedSession = SparkSession._activeSession = None
