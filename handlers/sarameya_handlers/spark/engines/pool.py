"""A driver's sessions, and the threads that use them: one session for each work function that runs.

While it runs, the work is the only user of its session, so a table may change the session's settings. The session is
returned when the work's thread has ended, not before: an abandoned thread keeps its session and its slot. Work that
waits for a slot also checks that the driver responds, so a driver that hangs is found.
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
from sarameya_handlers.spark.errors import BrokenClassError, LandingError, SparkGoneError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

Check = Callable[[], None]
"""Function that raises if the work was cancelled. Must be called right before anything that cannot be undone."""

logger = logging.getLogger("sarameya.spark")

CANCEL_TIMEOUT = 1.0
"""Seconds for cancelled work to end: a hanging Spark must not use up a rebalance's deadline."""
CANCEL_INTERVAL = 1.0
"""Seconds until Spark's jobs are cancelled again, if the thread continues: it may have started another job."""
ABORT_TIME = 30.0
"""Seconds after a cancellation in which errors printed by Spark are considered its consequences."""
CHECK_INTERVAL, RESPONSE_TIMEOUT = 30.0, 120.0
"""Seconds between two checks of the driver while work runs, and for its response. A driver without response hangs."""


@attrs.define(slots=True, eq=False)
class _Job:
    """State of one `run` call, shared by its threads: the work, the cancellation and the checks of the driver."""

    tag: str
    has_thread: bool = False
    session: SparkSession | None = None
    has_session: threading.Event = attrs.field(factory=threading.Event)
    """Set when `session` is set, or when the work has ended without one."""
    ended: threading.Event = attrs.field(factory=threading.Event)


@attrs.define(slots=True, eq=False)
class Pool:
    """A driver, and at most `max_jobs` sessions of it."""

    driver: Driver
    max_jobs: int
    died: str | None = attrs.field(default=None, init=False)
    """Description of the driver's death, once it has been noticed."""
    _idle: deque[SparkSession] = attrs.field(factory=deque, init=False)
    _open: list[SparkSession] = attrs.field(factory=list, init=False)
    _running: list[_Job] = attrs.field(factory=list, init=False)
    """Jobs with a thread, including abandoned threads."""
    _stopped: bool = attrs.field(default=False, init=False)
    _jobs: trio.CapacityLimiter = attrs.field(init=False)
    _cancellations: trio.CapacityLimiter = attrs.field(init=False)
    _checks: trio.CapacityLimiter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._jobs = trio.CapacityLimiter(self.max_jobs)
        self._cancellations = trio.CapacityLimiter(self.max_jobs)
        self._checks = trio.CapacityLimiter(self.max_jobs)

    async def run(self, work: Callable[[SparkSession, Check], T], tag: str) -> T:
        """Run `work(session, check)` in a thread and return its result. If cancelled, wait for CANCEL_TIMEOUT at most.

        Raises:
            SparkGoneError: The driver is found dead or hanging after a failure of the work.
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
            # A job that has no thread by now never gets one.
            failure = SparkGoneError(self.died or "Spark hangs", begun=job.has_thread)
        if isinstance(failure, SparkGoneError):
            self._mark_dead(str(failure))
        raise failure

    def stop(self, *, include_busy: bool = True) -> None:
        """Close the sessions, including those in use if `include_busy`, and stop the driver. Blocking."""
        self._stopped = True
        for session in tuple(self._open if include_busy else self._idle):
            self._close(session)
        self.driver.stop()

    def stop_nowait(self) -> None:
        """Mark the pool as stopped: a session that is being opened is closed as soon as it exists."""
        self._stopped = True

    def open_first(self) -> None:
        """Open a session in advance, as a check. Blocking; raises as `Driver.open_session` does."""
        self._release_session(self._acquire_session())

    # -- on the loop -------------------------------------------------------------------------------

    async def _run(self, work: Callable[[SparkSession, Check], T], job: _Job) -> T:
        try:
            # An abandoned thread keeps its token until it ends, so even then threads and sessions stay bounded.
            return await trio.to_thread.run_sync(self._work, work, job, abandon_on_cancel=True, limiter=self._jobs)
        except trio.Cancelled:
            self.driver.expect_errors(ABORT_TIME)
            with trio.CancelScope(shield=True), trio.move_on_after(CANCEL_TIMEOUT):
                await trio.to_thread.run_sync(self._cancel, job, abandon_on_cancel=True, limiter=self._cancellations)
            raise

    async def _watch(self, job: _Job, scope: trio.CancelScope) -> None:
        """Abandon a driver that hangs: kill it, so that calls that wait for it end, and cancel `scope`."""
        while True:
            await trio.sleep(CHECK_INTERVAL)
            with trio.move_on_after(RESPONSE_TIMEOUT) as timeout:
                await trio.to_thread.run_sync(self._check_driver, job, abandon_on_cancel=True, limiter=self._checks)
            if timeout.cancelled_caught:
                self._mark_dead(f"{self.driver.name} has not answered for {RESPONSE_TIMEOUT:.0f} s, and is abandoned")
                self.driver.kill()
                scope.cancel()
                return

    def _mark_dead(self, death: str) -> None:
        if self.died is None:
            self.died = death
            logger.error("%s", death)

    # -- in worker threads -------------------------------------------------------------------------

    def _work(self, work: Callable[[SparkSession, Check], T], job: _Job) -> T:
        job.has_thread = True
        self._running.append(job)
        try:
            # If `run` was cancelled before `has_thread` was set, `_cancel` did nothing.
            trio.from_thread.check_cancelled()
            session = job.session = self._acquire_session()
            job.has_session.set()
            try:
                with self.driver.tagged(session, job.tag):
                    trio.from_thread.check_cancelled()
                    return work(session, trio.from_thread.check_cancelled)
            except Exception as error:
                if death := self.driver.death(session):
                    raise SparkGoneError(death) from error
                if fault := jars_error(error):
                    raise fault from error
                if name := broken_class(error):
                    raise self._broken_class_error(name) from error
                raise
            finally:
                self._release_session(session)
        finally:
            self._running.remove(job)
            job.ended.set()
            job.has_session.set()

    def _broken_class_error(self, name: str) -> LandingError:
        text = (
            f"{self.driver.name} can never use the class {name} again, since its initialization has failed (was the "
            "temporary directory full?)"
        )
        if self.driver.is_replaceable:
            return SparkGoneError(f"{text}, and is abandoned")
        return BrokenClassError(f"{text}: restart it")

    def _cancel(self, job: _Job) -> None:
        """Cancel the work's Spark jobs repeatedly until its thread has ended, if it has one."""
        while job.has_thread and not job.ended.is_set():
            if job.session is not None:
                with suppress(Exception):  # if Spark is dead, there is nothing to cancel
                    self.driver.cancel(job.session, job.tag)
            job.ended.wait(CANCEL_INTERVAL)

    def _check_driver(self, job: _Job) -> None:
        """Wait for the driver's response in the job's session. Never returns if the driver hangs.

        A job that waits for a slot uses the sessions of the running jobs, which may have no watcher: abandoned threads.
        """
        for checked in (job,) if job.has_thread else tuple(self._running):
            checked.has_session.wait()
            if checked.session is not None:
                self.driver.death(checked.session)

    def _acquire_session(self) -> SparkSession:
        """Take an idle session that the driver still has, or open another."""
        while True:
            try:
                session = self._idle.pop()
            except IndexError:
                session = self.driver.open_session()
                self._open.append(session)
                return session
            death = self.driver.death(session)
            if death is None:
                return session
            # Perhaps only the session died, after idling too long. Opening another shows whether the driver did, too.
            logger.debug("%s", death)
            self._close(session)

    def _release_session(self, session: SparkSession) -> None:
        if self._stopped:
            self._close(session)
        else:
            self._idle.append(session)

    def _close(self, session: SparkSession) -> None:
        with suppress(ValueError):
            self._open.remove(session)
        self.driver.close_session(session)
