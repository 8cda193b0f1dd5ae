"""Spark's lifetime and Spark's threads: the only way from a sink's tasks into Spark's blocking calls.

One process has one Spark, so engines with the same options share it: the first to enter starts it, the last to
leave stops it. The event loop never waits for Spark; what a cancellation leaves behind in a thread is told to
end, not waited for.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import attrs
import trio

from sarameya import HandlerError
from sarameya_handlers.spark import jvm
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.java import require_packages
from sarameya_handlers.spark.options import SparkOptions
from sarameya_handlers.spark.table import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

logger = logging.getLogger("sarameya.spark")

CANCEL_TIMEOUT = 1.0
"""Seconds to tell Spark of a cancellation: a hung JVM must not hold a rebalance's deadline."""
ABORT_TIME = 30.0
"""Seconds after a cancellation in which the errors that Spark prints are taken for its consequences."""
DEATH_TIMEOUT = 1.0
"""Seconds to find out whether the JVM has died when pyspark cannot speak to it."""
STOP_TIMEOUT = 30.0
"""Seconds for Spark to stop, the forced end of its JVM (`jvm.END_TIMEOUT` before) included."""


class Engine(ABC):
    """Runs blocking work with a SparkSession; an async context manager for as long as there is one."""

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    async def run(self, work: Callable[[SparkSession, Checkpoint], T], *, tag: str) -> T:
        """`work(session, checkpoint)`'s result, or what it raises. `tag` names its Spark jobs, uniquely.

        Cancelled, it does not wait for `work`: the jobs are cancelled, and `checkpoint` raises when `work` next
        calls it. What `work` has done by then is unknown.
        """


@attrs.frozen(slots=True, eq=False)
class _Spark:
    """A running Spark and the threads that may block on it."""

    session: SparkSession
    jobs: trio.CapacityLimiter
    expect_errors: Callable[[float], None] = attrs.field(default=lambda _: None)
    """Told, before jobs are cancelled, for how many seconds Spark will complain of it."""
    cancellations: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1))

    async def run(self, work: Callable[[SparkSession, Checkpoint], T], tag: str) -> T:
        try:
            # An abandoned thread keeps its token until it ends, so that threads stay bounded even then.
            return await trio.to_thread.run_sync(self._tagged, work, tag, abandon_on_cancel=True, limiter=self.jobs)
        except trio.Cancelled:
            self.expect_errors(ABORT_TIME)
            with trio.CancelScope(shield=True), trio.move_on_after(CANCEL_TIMEOUT):
                await trio.to_thread.run_sync(
                    self._cancel_jobs, tag, abandon_on_cancel=True, limiter=self.cancellations
                )
            raise

    def _tagged(self, work: Callable[[SparkSession, Checkpoint], T], tag: str) -> T:
        context = self.session.sparkContext
        context.addJobTag(tag)
        try:
            return work(self.session, trio.from_thread.check_cancelled)
        finally:
            # Threads are used again. If Spark is gone meanwhile, so is the tag.
            with suppress(*_spark_is_gone()):
                context.removeJobTag(tag)

    def _cancel_jobs(self, tag: str) -> None:
        with suppress(*_spark_is_gone()):
            self.session.sparkContext.cancelJobsWithTag(tag)


class AdoptedEngine(Engine):
    """Works with a SparkSession that somebody else starts and stops."""

    def __init__(self, session: SparkSession, *, max_jobs: int = 2) -> None:
        if not hasattr(session, "sparkContext"):
            raise HandlerError(
                f"spark = {session!r}: must be SparkOptions or a SparkSession that is not Spark Connect's"
            )
        self._session = session
        self._max_jobs = max_jobs
        self._spark: _Spark | None = None

    async def __aenter__(self) -> Self:
        # Imports pyarrow here, in a thread, not with the first batch on the event loop.
        await trio.to_thread.run_sync(require_packages)
        self._spark = _Spark(self._session, trio.CapacityLimiter(self._max_jobs))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._spark = None

    async def run(self, work: Callable[[SparkSession, Checkpoint], T], *, tag: str) -> T:
        assert self._spark is not None, "entered first"
        return await self._spark.run(work, tag)


@attrs.define(slots=True, eq=False)
class _Shared:
    """The one Spark of this process, and how many engines use it."""

    options: SparkOptions
    jvm: jvm.Jvm
    spark: _Spark
    users: int = 0


_shared: _Shared | None = None
# Held while Spark starts or stops: members that enter together must not start two.
_changing = trio.Lock()


class SparkEngine(Engine):
    """Starts a SparkSession and stops it, together with all engines of this process.

    A Spark whose JVM has died is replaced when the next engine enters; those that used it keep failing.
    """

    def __init__(self, options: SparkOptions) -> None:
        self._options = options
        self._used: _Shared | None = None

    async def __aenter__(self) -> Self:
        """Raises HandlerError where Java, pyspark or pyarrow are missing, or Spark does not start."""
        global _shared
        async with _changing:
            if _shared is not None and _shared.jvm.has_died:
                dead, _shared = _shared.jvm, None
                await _stop(dead)
            if _shared is None:
                # Not abandoned when cancelled: a JVM that nobody owns would stay.
                running = await trio.to_thread.run_sync(jvm.start, self._options)
                jobs = trio.CapacityLimiter(self._options.max_jobs)
                _shared = _Shared(self._options, running, _Spark(running.session, jobs, running.expect_errors))
            if _shared.options != self._options:
                raise HandlerError(
                    f"this process runs Spark with other options ({_shared.options}) and has only one: "
                    "give all Spark sinks the same spark options"
                )
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
                # One that is no longer shared had died, and was stopped when it was replaced.
                if used.users or used is not _shared:
                    return
                _shared = None
                await _stop(used.jvm)

    async def run(self, work: Callable[[SparkSession, Checkpoint], T], *, tag: str) -> T:
        """Raises LandingError, whatever pyspark raises, when Spark's JVM has died."""
        assert self._used is not None, "entered first"
        running = self._used.jvm
        try:
            return await self._used.spark.run(work, tag)
        except _spark_is_gone() as error:
            # The connection may break a moment before the process is gone.
            death = await trio.to_thread.run_sync(running.death, DEATH_TIMEOUT, abandon_on_cancel=True)
            if death is None:
                raise
            raise LandingError(death) from error


async def _stop(running: jvm.Jvm) -> None:
    """Stop Spark within STOP_TIMEOUT. A JVM that hangs is killed early enough for `stop` to clean up behind it."""
    with trio.CancelScope(shield=True), trio.move_on_after(STOP_TIMEOUT) as patience:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_kill_at_last, running)
            await trio.to_thread.run_sync(running.stop, abandon_on_cancel=True)
            nursery.cancel_scope.cancel()
    if patience.cancelled_caught:
        logger.error("Spark has not stopped within %.0f s and is left behind", STOP_TIMEOUT)


async def _kill_at_last(running: jvm.Jvm) -> None:
    await trio.sleep(STOP_TIMEOUT - jvm.END_TIMEOUT)
    logger.error("Spark does not stop, its JVM is killed")
    running.kill()


def _spark_is_gone() -> tuple[type[Exception], ...]:
    """What pyspark raises when the JVM has died or its SparkContext was stopped."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    return (Py4JError, ConnectionError, AttributeError)
