"""A driver's sessions, and the threads that work with them: a session for each work that is under way.

It is its work's alone while that lasts, so that a table may change its settings. It is given back when the work's
thread has ended, however that ended, and not before: a thread that was abandoned keeps its session and its place.
Whoever waits for a place asks the driver whether it lives: one that hangs is found out by whoever needs it next.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import attrs
import trio

from sarameya_handlers.spark.engines.driver import Driver
from sarameya_handlers.spark.error_sources import broken_class, jars_error
from sarameya_handlers.spark.errors import SparkGoneError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

Check = Callable[[], None]
"""Raises if the work is no longer wanted. To be called right before what cannot be taken back."""

logger = logging.getLogger("sarameya.spark")

CANCEL_TIMEOUT = 1.0
"""Seconds for cancelled work to end once Spark is told: a Spark that hangs must not hold a rebalance's deadline."""
CANCEL_AGAIN = 1.0
"""Seconds after which Spark is told again, as long as the thread goes on: it may have had the next job begun."""
ABORT_TIME = 30.0
"""Seconds after a cancellation in which the errors that Spark prints are taken for its consequences."""
ASK_EACH, ANSWER_WITHIN = 30.0, 120.0
"""Seconds between two questions to the driver while work goes on, and for its answer: without one it hangs."""


@attrs.define(slots=True, eq=False)
class _Job:
    """A work on its way, for who cancels it. The events are between threads, where trio has none."""

    tag: str
    has_thread: bool = False
    session: SparkSession | None = None
    has_session: threading.Event = attrs.field(factory=threading.Event)
    """Set at the end, too."""
    ended: threading.Event = attrs.field(factory=threading.Event)


@attrs.define(slots=True, eq=False)
class Pool:
    """A driver and at most `max_jobs` sessions of it."""

    driver: Driver
    max_jobs: int
    died: str | None = attrs.field(default=None, init=False)
    """What is to be said of the driver once it was found dead."""
    _idle: deque[SparkSession] = attrs.field(factory=deque, init=False)
    _open: list[SparkSession] = attrs.field(factory=list, init=False)
    _at_work: list[_Job] = attrs.field(factory=list, init=False)
    """Those with a thread, abandoned ones among them."""
    _stopped: bool = attrs.field(default=False, init=False)
    _jobs: trio.CapacityLimiter = attrs.field(init=False)
    _cancellations: trio.CapacityLimiter = attrs.field(init=False)
    _questions: trio.CapacityLimiter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._jobs = trio.CapacityLimiter(self.max_jobs)
        self._cancellations = trio.CapacityLimiter(self.max_jobs)
        self._questions = trio.CapacityLimiter(self.max_jobs)

    async def run(self, work: Callable[[SparkSession, Check], T], tag: str) -> T:
        """`work(session, check)`'s result, or what it raises; SparkGoneError instead if the driver is found dead then,
        or hangs.

        Cancelled, it waits for CANCEL_TIMEOUT at most.
        """
        job = _Job(tag)
        results: list[T] = []
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, job, nursery.cancel_scope)
            try:
                results.append(await self._run(work, job))
            except Exception as error:  # noqa: BLE001 - raised below, outside the nursery, which would wrap it
                failure = error
            nursery.cancel_scope.cancel()
        if results:
            return results[0]
        if failure is None:
            # Without a thread by now it never gets one.
            failure = SparkGoneError(self.died or "Spark hangs", begun=job.has_thread)
        if isinstance(failure, SparkGoneError):
            self._is_dead(str(failure))
        raise failure

    async def look(self) -> None:
        """See whether the driver lives, while nobody works with it."""
        with suppress(SparkGoneError):
            await self.run(lambda session, check: None, "look")

    def stop(self, *, at_work: bool = True) -> None:
        """Close the sessions, those at work too or else once they are not, and stop the driver. Blocking."""
        self._stopped = True
        for session in tuple(self._open if at_work else self._idle):
            self._close(session)
        self.driver.stop()

    def stop_nowait(self) -> None:
        """Nobody wants it: a session that is being opened is closed as soon as it is there."""
        self._stopped = True

    def open_first(self) -> None:
        """Open a session before it is needed, to see whether there can be one. Blocking; raises as `open_session`."""
        self._give(self._take())

    # -- on the loop -------------------------------------------------------------------------------

    async def _run(self, work: Callable[[SparkSession, Check], T], job: _Job) -> T:
        try:
            # An abandoned thread keeps its token until it ends, so that threads and sessions stay bounded even then.
            return await trio.to_thread.run_sync(self._work, work, job, abandon_on_cancel=True, limiter=self._jobs)
        except trio.Cancelled:
            self.driver.expect_errors(ABORT_TIME)
            with trio.CancelScope(shield=True), trio.move_on_after(CANCEL_TIMEOUT):
                await trio.to_thread.run_sync(self._cancel, job, abandon_on_cancel=True, limiter=self._cancellations)
            raise

    async def _watch(self, job: _Job, scope: trio.CancelScope) -> None:
        """Give up a driver that hangs: what waits for it is told, and `scope` cancelled."""
        while True:
            await trio.sleep(ASK_EACH)
            with trio.move_on_after(ANSWER_WITHIN) as patience:
                await trio.to_thread.run_sync(self._ask, job, abandon_on_cancel=True, limiter=self._questions)
            if patience.cancelled_caught:
                self._is_dead(f"{self.driver.name} has not answered for {ANSWER_WITHIN:.0f} s, and is given up")
                self.driver.kill()
                scope.cancel()
                return

    def _is_dead(self, told: str) -> None:
        if self.died is None:
            self.died = told
            logger.error("%s", told)

    # -- in worker threads -------------------------------------------------------------------------

    def _work(self, work: Callable[[SparkSession, Check], T], job: _Job) -> T:
        job.has_thread = True
        self._at_work.append(job)
        try:
            # Whoever has cancelled before we said that there is a thread has told Spark nothing.
            trio.from_thread.check_cancelled()
            session = job.session = self._take()
            job.has_session.set()
            try:
                with self.driver.tagged(session, job.tag):
                    trio.from_thread.check_cancelled()
                    return work(session, trio.from_thread.check_cancelled)
            except Exception as error:
                if told := self.driver.death(session):
                    raise SparkGoneError(told) from error
                if fault := jars_error(error):
                    raise fault from error
                if self.driver.is_replaceable and (name := broken_class(error)):
                    raise SparkGoneError(
                        f"{self.driver.name} can never use the class {name} any more, whose start has failed (was its "
                        "temporary directory full?), and is given up"
                    ) from error
                raise
            finally:
                self._give(session)
        finally:
            self._at_work.remove(job)
            job.ended.set()
            job.has_session.set()

    def _cancel(self, job: _Job) -> None:
        """Tell Spark until the work's thread has ended, if it has got one."""
        while job.has_thread and not job.ended.is_set():
            if job.session is not None:
                with suppress(Exception):  # of a Spark that is gone there is nothing to cancel
                    self.driver.cancel(job.session, job.tag)
            job.ended.wait(CANCEL_AGAIN)

    def _ask(self, job: _Job) -> None:
        """For work that waits for a place, by what has one: nobody else may watch over that any more."""
        for asked in (job,) if job.has_thread else tuple(self._at_work):
            asked.has_session.wait()
            if asked.session is not None:
                self.driver.death(asked.session)

    def _take(self) -> SparkSession:
        """A session that was alive a moment ago: one that is idle, or another."""
        while True:
            try:
                session = self._idle.pop()
            except IndexError:
                session = self.driver.open_session()
                self._open.append(session)
                return session
            told = self.driver.death(session)
            if told is None:
                return session
            # It may be dead alone, of having been idle: whether the driver is, too, shows in opening another.
            logger.debug("%s", told)
            self._close(session)

    def _give(self, session: SparkSession) -> None:
        if self._stopped:
            self._close(session)
        else:
            self._idle.append(session)

    def _close(self, session: SparkSession) -> None:
        with suppress(ValueError):
            self._open.remove(session)
        self.driver.close_session(session)
