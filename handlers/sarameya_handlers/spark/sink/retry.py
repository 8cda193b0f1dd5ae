"""Waits between attempts: of a flush, of dead letters, of reading a table's links."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from math import inf

import attrs
import trio

from sarameya import Activity, Report, SarameyaError
from sarameya_handlers.spark.error_sources import passes
from sarameya_handlers.spark.errors import LandingError, cause_of

logger = logging.getLogger("sarameya.spark")

_REVOKED_DELAY = 0.5
"""Seconds between two attempts for a revoked partition."""


@attrs.define(slots=True)
class FlushRetry:
    """Waits with a growing delay, for at most `time_limit` seconds in total. Waits are short after the claim's end."""

    _ended: trio.Event = attrs.field(factory=trio.Event)
    time_limit: float = inf
    _report: Report | None = None
    """The report of the claim, which then shows that it waits."""
    is_limited: bool = True
    """False to wait for a remedy, too, if an error does not pass by itself. There is no time limit then."""
    _attempts: int = 1
    _last_cause: str = ""
    _started_at: float = attrs.field(factory=trio.current_time)
    _delay: float = 0.5
    """Seconds before the next attempt."""
    _max_delay: float = 30.0

    async def wait(self, problem: str, error: Exception | None) -> None:
        """Wait before the next attempt.

        Raises:
            LandingError: The error does not pass, or the time limit is reached.
        """
        cause = cause_of(error) if error else "unknown reason"
        if self.is_limited:
            self._check(problem, cause, error)
        # A wait without an end must not fill the log.
        is_new = self.is_limited or self._delay < self._max_delay or cause != self._last_cause
        self._last_cause = cause
        level = logging.WARNING if is_new else logging.DEBUG
        logger.log(level, "%s; retrying in %.1f s: %s", problem, self._delay, cause)
        self._attempts += 1
        with self._reported(f"{problem}: {cause}"):
            if self._ended.is_set():
                await trio.sleep(_REVOKED_DELAY)
            with trio.move_on_after(self._delay):
                await self._ended.wait()
        self._delay = min(2 * self._delay, self._max_delay)

    def _check(self, problem: str, cause: str, error: Exception | None) -> None:
        waited = trio.current_time() - self._started_at
        if error is not None and not passes(error):
            failure = LandingError(f"{problem}: {cause}")
            failure.permanent = isinstance(error, SarameyaError) and error.permanent
            raise failure from error
        if waited + self._delay > self.time_limit:
            raise LandingError(f"{problem}; retries failed for {waited:.0f} s: {cause}") from error

    def _reported(self, reason: str) -> AbstractContextManager[None]:
        if self._report is None:
            return nullcontext()
        return self._report.doing(Activity.RETRYING, reason, attempt=self._attempts)
