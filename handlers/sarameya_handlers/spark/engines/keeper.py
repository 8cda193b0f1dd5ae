"""Keeper: starts the one Spark of several engines, and another one after it has died, with growing delays.

It handles each death once. The functions that start and stop a driver are arguments.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from math import inf

import attrs
import trio

from sarameya import HandlerError
from sarameya_handlers.spark.engines.pool import Pool
from sarameya_handlers.spark.errors import LandingError, SparkGoneError, SparkStartError

logger = logging.getLogger("sarameya.spark")

HEALTHY = 60.0
"""Seconds. If Spark has lived longer than this, the next start counts as a first one, without delay."""
BACKOFF, BACKOFF_MAX = 0.5, 15.0
"""Seconds before a start that follows another failed start or an early death; doubled each time, up to the maximum."""
OPEN_TIMEOUT = 60.0
"""Seconds to retry a server that does not respond when it is first needed."""
RETURN_TIMEOUT = 120.0
"""Seconds to retry to start another Spark before the work that needs it fails."""


@attrs.define(slots=True)
class StartBackoff:
    """Backoff between starts: decides when another Spark may be started. Pure: `now` is in seconds of any clock."""

    jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.2)
    not_before: float = attrs.field(default=-inf, init=False)
    """Earliest time of the next start."""
    _failures: int = attrs.field(default=0, init=False)
    _started_at: float = attrs.field(default=inf, init=False)

    def record_start(self, now: float) -> None:
        """Record that Spark has started."""
        self._started_at = now

    def record_end(self, now: float) -> None:
        """Record that Spark has died, or could not be started."""
        self._failures = 1 if now - self._started_at >= HEALTHY else self._failures + 1
        self._started_at = inf
        delay = 0.0 if self._failures == 1 else min(BACKOFF_MAX, BACKOFF * 2.0 ** (self._failures - 2))
        self.not_before = now + delay * self.jitter()


@attrs.define(slots=True, eq=False)
class Keeper:
    """Keeps one Spark alive. `start` and `stop` do the work; `stop` is shielded, and limits its own time."""

    _start: Callable[[], Awaitable[Pool]]
    _stop: Callable[[Pool, bool], Awaitable[None]]
    """The second argument is True to close even sessions that are in use."""
    _backoff: StartBackoff = attrs.field(factory=StartBackoff)
    _level: int = logging.INFO
    """Level at which starts are logged."""
    _pool: Pool | None = attrs.field(default=None, init=False)
    _last_error: str = attrs.field(default="", init=False)
    # Held while one Spark is stopped and another started: several engines whose work has failed must not start two.
    _changing: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def open(self) -> None:
        """Start Spark for the first time.

        Raises:
            HandlerError: A person must change something first.
            SparkStartError: Spark has not started. The caller decides when to retry.
            SparkGoneError: A server does not respond in time.
        """
        deadline = trio.current_time() + OPEN_TIMEOUT
        try:
            await self._living_pool(deadline, (HandlerError, SparkStartError))
        except SparkGoneError as error:
            raise SparkGoneError(f"{error}; start it, or correct `master`", begun=False) from error

    async def living_pool(self, deadline: float) -> Pool:
        """Return the pool of a living Spark, after starting one if necessary. Raises SparkGoneError at the deadline."""
        return await self._living_pool(deadline, ())

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await self._stop(pool, True)

    async def _living_pool(self, deadline: float, fatal: tuple[type[Exception], ...]) -> Pool:
        while True:
            if self._pool is not None and self._pool.died is None:
                return self._pool
            if self._backoff.not_before > deadline:
                died = self._pool and self._pool.died
                raise SparkGoneError(died or self._last_error, begun=False)
            await trio.sleep_until(self._backoff.not_before)
            async with self._changing:
                if trio.current_time() >= self._backoff.not_before:
                    await self._replace(fatal)

    async def _replace(self, fatal: tuple[type[Exception], ...]) -> None:
        if self._pool is not None:
            if self._pool.died is None:
                return
            self._last_error = self._pool.died
            dead, self._pool = self._pool, None
            self._backoff.record_end(trio.current_time())
            await self._stop(dead, False)
            if self._backoff.not_before > trio.current_time():
                return
        started_at = trio.current_time()
        if not self._last_error:  # otherwise the retry has been logged
            logger.log(self._level, "starting Spark")
        try:
            self._pool = await self._start()
        except fatal:
            raise
        except (HandlerError, LandingError) as error:
            self._backoff.record_end(trio.current_time())
            if str(error) != self._last_error:  # otherwise it has been logged
                logger.warning("%s; retrying", error)
            self._last_error = str(error)
            return
        self._backoff.record_start(trio.current_time())
        logger.log(self._level, "Spark is ready after %.1f s", trio.current_time() - started_at)
        if self._last_error:
            logger.warning("Spark is back: interrupted work is retried")
            self._last_error = ""
