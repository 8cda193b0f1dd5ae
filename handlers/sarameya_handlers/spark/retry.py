"""Waits between tries: of a landing, of dead letters, of a table's links."""

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

_HURRIED = 0.5
"""Seconds between two tries of what is given up."""


@attrs.define(slots=True)
class Retry:
    """Waits, longer each time, for `patience` seconds at most, and no longer than the claim lasts, if there is one."""

    _ended: trio.Event = attrs.field(factory=trio.Event)
    patience: float = inf
    _report: Report | None = None
    """Where it is said, if that is anybody's."""
    _tries: int = 1
    _since: float = attrs.field(factory=trio.current_time)
    _delay: float = 0.5
    _longest: float = 30.0

    async def wait(self, what: str, error: Exception | None) -> None:
        """Raises LandingError where waiting is of no use, or has been for long enough."""
        cause = cause_of(error) if error else "the table says nothing about why"
        waited = trio.current_time() - self._since
        if error is not None and not passes(error):
            failure = LandingError(f"{what}: {cause}")
            failure.permanent = isinstance(error, SarameyaError) and error.permanent
            raise failure from error
        if waited + self._delay > self.patience:
            raise LandingError(f"{what}, after {waited:.0f} s of trying: {cause}") from error
        logger.warning("%s, the next try is in %.1f s: %s", what, self._delay, cause)
        self._tries += 1
        with self._said(f"{what}: {cause}"):
            if self._ended.is_set():
                await trio.sleep(_HURRIED)
            with trio.move_on_after(self._delay):
                await self._ended.wait()
        self._delay = min(2 * self._delay, self._longest)

    def _said(self, why: str) -> AbstractContextManager[None]:
        if self._report is None:
            return nullcontext()
        return self._report.doing(Activity.RETRYING, why, attempt=self._tries)
