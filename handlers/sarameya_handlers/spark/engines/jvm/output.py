"""Output of Spark's JVM, written to this process's log."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections import deque
from math import inf

from sarameya_handlers.spark.options import LOG_LEVELS

logger = logging.getLogger("sarameya.spark")

_END_TIMEOUT = 10.0
"""Seconds to read the last lines of a JVM that has ended."""


class JvmOutput:
    """Output of the JVM, logged line by line to `sarameya.spark` by a thread that ends with the JVM.

    Before `start_logging`, nothing is logged, and the last errors are kept: they describe the failure if the JVM does
    not start. Afterwards lines of Spark's own log are logged if their level is at least `minimum`, and other lines,
    which a failing JVM prints, always. Stacks and expected errors are logged at DEBUG.
    """

    def __init__(self, minimum: str) -> None:
        self._wanted = LOG_LEVELS[: LOG_LEVELS.index(minimum) + 1]
        self._errors: deque[str] = deque(maxlen=5)
        self._is_logging = threading.Event()
        self._errors_expected_until = -inf
        self.main_has_failed = False
        """True if the JVM's main thread has ended with an exception before `start_logging`."""
        read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._read, args=[read_end], name="spark-output", daemon=True)
        self._thread.start()

    def start_logging(self) -> None:
        """Log all further lines: the JVM has started."""
        self._is_logging.set()

    def expect_errors(self, seconds: float) -> None:
        """Log errors at DEBUG for this many seconds."""
        self._errors_expected_until = max(self._errors_expected_until, time.monotonic() + seconds)

    def last_errors(self) -> str:
        """Return the last errors, without their stacks, of a JVM that has ended."""
        self._thread.join(_END_TIMEOUT)
        return "\n".join(self._errors)

    def _read(self, read_end: int) -> None:
        level, is_logged = "", False
        with open(read_end, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                text = line.rstrip()
                level = level_of(text, level)
                is_logged = bool(_LOG_LINE.match(text) or (is_logged and _CONTINUED.match(text)))
                is_stack = text.startswith(("\tat ", "\t... "))
                if not self._is_logging.is_set():
                    self.main_has_failed = self.main_has_failed or text.startswith('Exception in thread "main"')
                    if level in ("FATAL", "ERROR") and text.strip() and not is_stack:
                        self._errors.append(text)
                elif level in self._wanted or (level == "ERROR" and not is_logged):
                    is_detail = is_stack or time.monotonic() < self._errors_expected_until
                    logger.log(logging.DEBUG if is_detail else _PYTHON_LEVELS.get(level, logging.DEBUG), "%s", text)


_PYTHON_LEVELS = {"FATAL": logging.CRITICAL, "ERROR": logging.ERROR, "WARN": logging.WARNING, "INFO": logging.INFO}
_LOG_LINE = re.compile(rf"\d\S* \S+ ({'|'.join(LOG_LEVELS)}) ")
_CONTINUED = re.compile(r"\s|Caused by: |$")
_BANNER = re.compile(
    "WARNING: Using incubator modules|Using Spark's default log4j|To adjust logging level|"
    "Setting default log level|Setting Spark log level"
)


def level_of(line: str, before: str) -> str:
    """Return the level of a line. `before` is the level of the line before it.

    Banners are INFO. Lines that are neither log4j's nor a banner come from a failing JVM and are ERROR.
    """
    if match := _LOG_LINE.match(line):
        return match[1]
    if _CONTINUED.match(line):
        return before
    return "INFO" if _BANNER.match(line) else "ERROR"
