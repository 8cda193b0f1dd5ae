"""The JVM behind a classic SparkSession: start and stop of Spark in it. Blocking; for worker threads."""

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
from sarameya_handlers.spark.engines.jvm.launch import end_process, launch
from sarameya_handlers.spark.engines.jvm.output import JvmOutput
from sarameya_handlers.spark.engines.jvm.start_failures import start_error
from sarameya_handlers.spark.engines.lease import share_leases
from sarameya_handlers.spark.engines.requirements import require_packages
from sarameya_handlers.spark.errors import SparkStartError, cause_of, text_of
from sarameya_handlers.spark.options import SparkOptions

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

_OUT_OF_MEMORY = (-signal.SIGKILL, 52)
"""Exit codes that probably mean out of memory: of the kernel's killer, and of Spark's own handler."""
_STARTED_BY_SPARK_SUBMIT = "PYSPARK_GATEWAY_PORT"


@attrs.frozen(slots=True)
class Jvm:
    """A running classic Spark.

    Attributes:
        session: Spark's first session.
        _gateway: pyspark's gateway to a JVM that we started. None if the JVM was there before, and is not ended.
        _output: Output of a JVM that we started.
    """

    session: SparkSession
    _gateway: Any
    _output: JvmOutput | None = None

    def expect_errors(self, seconds: float) -> None:
        """Log Spark's errors at DEBUG for this many seconds, because this process causes them itself."""
        if self._output:
            self._output.expect_errors(seconds)

    @property
    def has_died(self) -> bool:
        """True if the JVM has ended unexpectedly. Always false for a JVM that we did not start."""
        return self._gateway is not None and self._gateway.proc.poll() is not None

    def death(self, within: float) -> str | None:
        """Describe the death of a JVM that has died or dies `within` this many seconds; None if it is alive."""
        if self._gateway is None:
            return None
        try:
            code = self._gateway.proc.wait(within)
        except subprocess.TimeoutExpired:
            return None
        return f"Spark's JVM has died (exit code {code}{'; out of memory?' if code in _OUT_OF_MEMORY else ''})"

    def stop(self, *, is_dead: bool = False) -> None:
        """Stop Spark and end the JVM, even if it is dead. Log its death, unless `is_dead`: it was logged before."""
        self.expect_errors(inf)
        try:
            if self.has_died:
                if not is_dead:
                    logger.error("%s", self.death(0))
                _forget(self.session.sparkContext)
            else:
                self.session.stop()
        except Exception as error:  # noqa: BLE001 - pyspark raises many types for a dead JVM, which is ended anyway
            logger.error("Spark has not stopped properly: %s", cause_of(error))
            _forget(self.session.sparkContext)
        finally:
            if self._gateway:
                _end(self._gateway)

    def kill(self) -> None:
        """Kill a JVM that hangs. A call of `stop` that waits for it then ends."""
        if self._gateway:
            self._gateway.proc.kill()


def start(
    options: SparkOptions,
    *,
    environment: Mapping[str, str] | None = None,
    on_launched: Callable[[subprocess.Popen[bytes]], None] = lambda process: None,
    check: Callable[[], None] = lambda: None,
) -> Jvm:
    """Start Spark in this process.

    Args:
        options: Spark's master and properties.
        environment: The JVM's environment variables, in addition to ours.
        on_launched: Called with the JVM's process. If the process is killed, this call fails.
        check: Called repeatedly until Spark itself starts in the JVM. May raise to stop.

    Raises:
        HandlerError: A person must change something first.
        SparkStartError: Any other failure, with Spark's own error text.
    """
    require_packages()
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise HandlerError(
            "Spark runs in this process already, and a process has only one: give its SparkSession to the sink"
        )
    _quieten()
    conf = SparkConf().setAll(list(options.properties.items()))
    has_jvm = SparkContext._gateway is not None or _STARTED_BY_SPARK_SUBMIT in os.environ
    output = None if has_jvm else JvmOutput(options.log_level)
    gateway = output and launch(conf.getAll(), output, environment or {}, on_launched, check)
    try:
        context = SparkContext(conf=conf, gateway=gateway)
        _choose_python(context)
        share_leases()
        return Jvm(SparkSession(context), gateway, output)
    except Exception as error:
        failure = _failure(gateway, error)  # before the JVM ends: it has the text of the error
        if gateway:
            # There is a context if the JVM was killed after its context was created and before its session was.
            _forget(SparkContext._active_spark_context)
            _end(gateway)
        raise failure from error


def _failure(gateway: Any, error: Exception) -> HandlerError | SparkStartError:
    """Return the error for a Spark that has not started in a JVM that responded, with Spark's own error text."""
    summary, text = f"Spark does not start: {cause_of(error)}", text_of(error)
    has_died = gateway is not None and gateway.proc.poll() is not None
    return SparkStartError(summary) if has_died or text is None else start_error(summary, text)


def _quieten() -> None:
    """Keep pyspark's loggers from repeating errors that are raised, and from logging each closed connection."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    # The root logger's filter applies only to records logged to the root itself, not to those of other loggers.
    logging.getLogger().addFilter(_wanted_at_root)
    py4j = logging.getLogger("py4j")
    if py4j.level == logging.NOTSET:
        py4j.setLevel(logging.WARNING)


def _wanted_at_root(record: logging.LogRecord) -> bool:
    """Return False for stacks that py4j logs to the root logger after a JVM's death, unless its logger is at DEBUG."""
    return Path(record.pathname).parent.name != "py4j" or logging.getLogger("py4j").isEnabledFor(logging.DEBUG)


def _choose_python(context: SparkContext) -> None:
    """Run local Python workers (UDFs) with this Python, instead of the first `python3` in PATH."""
    if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def _end(gateway: Any) -> None:
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    end_process(gateway.proc)
    gateway.remove_files()


def _forget(context: SparkContext | None) -> None:
    """Remove a dead Spark from pyspark's globals, so that another can start. Sends no request to it."""
    from pyspark.sql import SparkSession

    if context is not None:
        context._jsc = None
        context.stop()
    SparkSession._instantiatedSession = SparkSession._activeSession = None
