"""Keeps one Spark for those who use it: another is started when it has died, later each time that does not help.

Owns when, and that it is done once for one death; how a driver is started and stopped is an argument.
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
"""Seconds: the end of a longer life is a first one, after which another may begin at once."""
BACKOFF, BACKOFF_MAX = 0.5, 15.0
"""Seconds before a start, once one has failed or what it has started did not live: doubled each time."""
OPEN_TIMEOUT = 60.0
"""Seconds in which a server that does not answer is tried again, when it is needed for the first time."""
RETURN_TIMEOUT = 120.0
"""Seconds in which another Spark is tried to be had for a work, before the work fails."""


@attrs.define(slots=True)
class Lives:
    """When another Spark may be started. Pure: `now` is seconds of any clock."""

    jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.2)
    not_before: float = attrs.field(default=-inf, init=False)
    _failures: int = attrs.field(default=0, init=False)
    _began: float = attrs.field(default=inf, init=False)

    def began(self, now: float) -> None:
        self._began = now

    def ended(self, now: float) -> None:
        """It has died, or was not to be started at all."""
        self._failures = 1 if now - self._began >= HEALTHY else self._failures + 1
        self._began = inf
        delay = 0.0 if self._failures == 1 else min(BACKOFF_MAX, BACKOFF * 2.0 ** (self._failures - 2))
        self.not_before = now + delay * self.jitter()


@attrs.define(slots=True, eq=False)
class Keeper:
    """The one Spark that there is. `start` and `stop` do that; `stop` is shielded, and bounded by itself."""

    _start: Callable[[], Awaitable[Pool]]
    _stop: Callable[[Pool, bool], Awaitable[None]]
    """The second argument: whether it is wanted no more, also by works that still go on with it."""
    _lives: Lives = attrs.field(factory=Lives)
    _level: int = logging.INFO
    """Of the lines that say that it is started."""
    _pool: Pool | None = attrs.field(default=None, init=False)
    _why: str = attrs.field(default="", init=False)
    # Held while one is stopped and another started: several whose work has failed must not start two.
    _changing: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def open(self) -> None:
        """Start it for the first time.

        Raises:
            HandlerError: A person must change something first.
            SparkStartError: It has not started. Whoever opens it decides when to retry.
            SparkGoneError: A server does not answer in time.
        """
        deadline = trio.current_time() + OPEN_TIMEOUT
        try:
            await self._living(deadline, (HandlerError, SparkStartError))
        except SparkGoneError as error:
            raise SparkGoneError(f"{error}; start it, or correct `master`", begun=False) from error

    async def living(self, deadline: float) -> Pool:
        """It, or the one that is started since it was found dead. Raises SparkGoneError if there is none by then."""
        return await self._living(deadline, ())

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await self._stop(pool, True)

    async def _living(self, deadline: float, fatal: tuple[type[Exception], ...]) -> Pool:
        while True:
            if self._pool is not None and self._pool.died is None:
                return self._pool
            if self._lives.not_before > deadline:
                died = self._pool and self._pool.died
                raise SparkGoneError(died or self._why, begun=False)
            await trio.sleep_until(self._lives.not_before)
            async with self._changing:
                if trio.current_time() >= self._lives.not_before:
                    await self._replace(fatal)

    async def _replace(self, fatal: tuple[type[Exception], ...]) -> None:
        if self._pool is not None:
            if self._pool.died is None:
                return
            self._why = self._pool.died
            dead, self._pool = self._pool, None
            self._lives.ended(trio.current_time())
            await self._stop(dead, False)
            if self._lives.not_before > trio.current_time():
                return
        began = trio.current_time()
        if not self._why:  # else it has been said that it is tried again
            logger.log(self._level, "starting Spark")
        try:
            self._pool = await self._start()
        except fatal:
            raise
        except (HandlerError, LandingError) as error:
            self._lives.ended(trio.current_time())
            if str(error) != self._why:  # else it has been said
                logger.warning("%s; it is tried again", error)
            self._why = str(error)
            return
        self._lives.began(trio.current_time())
        logger.log(self._level, "Spark is ready after %.1f s", trio.current_time() - began)
        if self._why:
            logger.warning("Spark is there again: what was under way with the last one is tried again")
            self._why = ""
