"""Engines: run Spark's blocking calls for a sink's tasks, and share one Spark.

All calls into Spark go through an engine. A process has one Spark, so engines with the same options share it: the first
one entered starts it, the last one exited stops it, and all of them get another Spark after it has died. The event loop
never waits for Spark. If a task is cancelled, its thread's Spark jobs are cancelled, but the task does not wait for the
thread's end.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import attrs
import trio

from sarameya import HandlerError
from sarameya_handlers.spark.engines import driver_start
from sarameya_handlers.spark.engines.classic import ClassicDriver
from sarameya_handlers.spark.engines.connect import ConnectDriver, connect_mode, is_connect
from sarameya_handlers.spark.engines.driver import Driver
from sarameya_handlers.spark.engines.keeper import RETURN_TIMEOUT, Keeper
from sarameya_handlers.spark.engines.pool import Check, Pool
from sarameya_handlers.spark.engines.requirements import require_packages
from sarameya_handlers.spark.errors import SparkGoneError
from sarameya_handlers.spark.options import SparkOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["AdoptedEngine", "Check", "Engine", "SparkEngine", "engine_of"]

T = TypeVar("T")

logger = logging.getLogger("sarameya.spark")


class Engine(ABC):
    """Runs blocking work with SparkSessions. An async context manager, inside which Spark runs."""

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    @abstractmethod
    def max_jobs(self) -> int:
        """Maximum number of `run` calls that use Spark at once; further calls wait."""

    @abstractmethod
    async def run(self, work: Callable[[SparkSession, Check], T], *, tag: str) -> T:
        """Run `work(session, check)` in a thread and return its result.

        No other work uses the session meanwhile. The session comes from classic Spark or Spark Connect, and has the
        settings of the session from which it was cloned. The work must restore any setting that it changes.

        If cancelled, this waits at most a second for the work: its jobs are cancelled, and `check` raises at its next
        call. The effect of the work is unknown then.

        Args:
            work: A blocking function.
            tag: Unique name of its Spark jobs.

        Raises:
            SparkGoneError: Spark has died, or does not come back. If `begun`, the effect of the work is unknown. The
                next work gets another Spark, if this process starts Spark itself.
        """


def engine_of(spark: SparkOptions | SparkSession | Engine | str | None) -> Engine:
    """Return the engine for options, a SparkSession, the address of a Spark Connect server, or None for defaults."""
    if isinstance(spark, Engine):
        return spark
    if isinstance(spark, str):
        return SparkEngine(SparkOptions(master=spark))
    if spark is None or isinstance(spark, SparkOptions):
        return SparkEngine(spark or SparkOptions())
    return AdoptedEngine(spark)


class AdoptedEngine(Engine):
    """Runs work in sessions cloned from a user's SparkSession. The user starts and stops its Spark."""

    def __init__(self, session: SparkSession, *, max_jobs: int = 2) -> None:
        self._driver = _driver_of(session)
        self._max_jobs = max_jobs
        self._pool: Pool | None = None

    @property
    def max_jobs(self) -> int:
        return self._max_jobs

    async def __aenter__(self) -> Self:
        # Imports pyarrow in a thread now, instead of on the event loop with the first batch.
        await trio.to_thread.run_sync(require_packages)
        self._pool = Pool(self._driver, self._max_jobs)
        return self

    async def __aexit__(self, *_: object) -> None:
        pool, self._pool = self._pool, None
        assert pool is not None, "entered first"
        await driver_start.stop(pool)

    async def run(self, work: Callable[[SparkSession, Check], T], *, tag: str) -> T:
        """Run work as all engines do. SparkGoneError is not retriable here: this engine cannot start another Spark."""
        assert self._pool is not None, "entered first"
        try:
            if self._pool.died is not None:
                raise SparkGoneError(self._pool.died, begun=False)
            return await self._pool.run(work, tag)
        except SparkGoneError as gone:
            raise SparkGoneError(
                f"{gone}; the sink was given a SparkSession of this Spark, and cannot start another: give it "
                "SparkOptions instead, or restart the process",
                begun=gone.begun,
                is_ours=False,
            ) from gone


@attrs.define(slots=True, eq=False)
class _Shared:
    """The one Spark of this process, and the number of engines that use it."""

    options: SparkOptions
    keeper: Keeper
    mode: ExitStack
    users: int = 0


_shared: _Shared | None = None
# Held while Spark starts or stops: members that enter together must not start two.
_changing = trio.Lock()


class SparkEngine(Engine):
    """Starts and stops Spark, or opens sessions on a Spark Connect server, shared by all engines of this process.

    A Spark that has died is replaced for all of them as soon as one needs it.

    Args:
        options: Spark's address and properties.
        log_at: Level at which start and stop are logged. A service logs them, since they take seconds; a command prints
            only its result.
    """

    def __init__(self, options: SparkOptions, *, log_at: int = logging.INFO) -> None:
        self._options = options
        self._log_at = log_at
        self._used: _Shared | None = None

    @property
    def max_jobs(self) -> int:
        return self._options.max_jobs

    async def __aenter__(self) -> Self:
        """Start Spark, unless another engine has started it.

        Raises:
            HandlerError: A person must change something first.
            SparkStartError: Spark has not started.
            SparkGoneError: A server has not responded within a minute.
        """
        global _shared
        async with _changing:
            if _shared is None:
                keeper = Keeper(partial(driver_start.start, self._options), driver_start.stop, level=self._log_at)
                await keeper.open()
                _shared = _Shared(self._options, keeper, ExitStack())
                if self._options.is_connect:
                    _shared.mode.enter_context(connect_mode())
            elif _shared.options != self._options:
                raise HandlerError(_differences(self._options, _shared.options))
            _shared.users += 1
            self._used = _shared
        return self

    async def __aexit__(self, *_: object) -> None:
        global _shared
        used, self._used = self._used, None
        assert used is not None, "entered first"
        with trio.CancelScope(shield=True):
            async with _changing:
                used.users -= 1
                if used.users == 0:
                    _shared = None
                    used.mode.close()
                    if not self._options.is_connect:
                        logger.log(self._log_at, "Spark is being stopped")
                    await used.keeper.close()

    async def run(self, work: Callable[[SparkSession, Check], T], *, tag: str) -> T:
        assert self._used is not None, "entered first"
        deadline = trio.current_time() + RETURN_TIMEOUT
        while True:
            pool = await self._used.keeper.living_pool(deadline)
            try:
                return await pool.run(work, tag)
            except SparkGoneError as gone:
                # Work that has not begun is run with the next Spark.
                if gone.begun:
                    raise


def _driver_of(session: SparkSession) -> Driver:
    if is_connect(session):
        return ConnectDriver.of(session)
    if hasattr(session, "sparkContext"):
        return ClassicDriver(session)
    raise HandlerError(f"spark = {session!r}: must be SparkOptions, a SparkSession, or 'sc://host:port'")


def _differences(wanted: SparkOptions, running: SparkOptions) -> str:
    names = [field.name for field in attrs.fields(SparkOptions)]
    # Names without values, which may be secret.
    different = ", ".join(name for name in names if getattr(wanted, name) != getattr(running, name))
    return (
        f"this process runs Spark with other options ({different}) and has only one: "
        "give all Spark sinks the same spark options"
    )
