"""What Spark's JVM prints, and who is to hear of it."""

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
"""Seconds for the last lines of a JVM that has ended to be read."""


class Output:
    """What the JVM prints, passed on line by line to the `sarameya.spark` logger by a thread that ends with it.

    Until `launched` it is only kept, to become the error's text if the JVM does not start. Of Spark's own log
    what is at `minimum` or above is passed on; of the rest, which a JVM in trouble prints by itself, all. Stacks, and
    errors that are expected, are for DEBUG.
    """

    def __init__(self, minimum: str) -> None:
        self._wanted = LOG_LEVELS[: LOG_LEVELS.index(minimum) + 1]
        self._complaints: deque[str] = deque(maxlen=5)
        self._launched = threading.Event()
        self._expected_until = -inf
        self.main_has_failed = False
        """Whether the JVM's main thread has ended with an exception, before `launched`."""
        read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._pass_on, args=[read_end], name="spark-output", daemon=True)
        self._thread.start()

    def launched(self) -> None:
        self._launched.set()

    def expect_errors(self, seconds: float) -> None:
        self._expected_until = max(self._expected_until, time.monotonic() + seconds)

    def complaints(self) -> str:
        """The last errors, without their stacks, of a JVM that has ended."""
        self._thread.join(_END_TIMEOUT)
        return "\n".join(self._complaints)

    def _pass_on(self, read_end: int) -> None:
        level, is_logged = "", False
        with open(read_end, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                text = line.rstrip()
                level = level_of(text, level)
                is_logged = bool(_LOG_LINE.match(text) or (is_logged and _CONTINUED.match(text)))
                is_stack = text.startswith(("\tat ", "\t... "))
                if not self._launched.is_set():
                    self.main_has_failed = self.main_has_failed or text.startswith('Exception in thread "main"')
                    if level in ("FATAL", "ERROR") and text.strip() and not is_stack:
                        self._complaints.append(text)
                elif level in self._wanted or (level == "ERROR" and not is_logged):
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
