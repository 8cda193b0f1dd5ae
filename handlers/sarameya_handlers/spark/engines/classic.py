"""Classic Spark as a `Driver`: sessions of one SparkContext, in a JVM that we started (jvm/), or that the user did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import attrs

from sarameya_handlers.spark.engines.driver import Driver
from sarameya_handlers.spark.engines.jvm.spark_jvm import Jvm
from sarameya_handlers.spark.errors import SparkGoneError, cause_of
from sarameya_handlers.spark.session_settings import make_safe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_USERS_SPARK = "spark.sarameya.given"
DEATH_TIMEOUT = 1.0
"""Seconds to wait for the exit code of a JVM whose connections have broken."""


def is_users_spark(session: SparkSession) -> bool:
    """Return whether the session belongs to a Spark that the user started, and may be using."""
    return session.conf.get(_USERS_SPARK, "false") == "true"


@attrs.define(slots=True, eq=False)
class ClassicDriver(Driver):
    """Driver of the session `base`. Other sessions are cloned from it, with settings, temporary views and functions."""

    base: SparkSession
    jvm: Jvm | None = None
    """None if the JVM is the user's."""
    _found_dead: bool = attrs.field(default=False, init=False)
    """True if `death` has returned how the driver died."""

    @property
    def name(self) -> str:
        return "Spark's JVM"

    @property
    def is_replaceable(self) -> bool:  # type: ignore[override]
        return self.jvm is not None

    def open_session(self) -> SparkSession:
        try:
            # newSession() would take the driver's own settings, and miss those that were set in `base` since.
            java_session = self.base._jsparkSession.cloneSession()
            session = type(self.base)(self.base.sparkContext, java_session)
            make_safe(session)
            if self.jvm is None:
                session.conf.set(_USERS_SPARK, "true")
            return session
        except Exception as error:
            if death := self.death(self.base):
                raise SparkGoneError(death, begun=False) from error
            raise

    def close_session(self, session: SparkSession) -> None:
        """Do nothing: Spark's JVM collects unreferenced sessions, and their jobs have tags of their own."""

    @contextmanager
    def tagged(self, session: SparkSession, tag: str) -> Iterator[None]:
        context = session.sparkContext
        context.addJobTag(tag)
        try:
            yield
        finally:
            # The thread is reused for other work. A dead Spark has no tags.
            with suppress(*_broken()):
                context.removeJobTag(tag)

    def cancel(self, session: SparkSession, tag: str) -> None:
        session.sparkContext.cancelJobsWithTag(tag)

    def death(self, session: SparkSession) -> str | None:
        death = self._death(session)
        self._found_dead = death is not None
        return death

    def _death(self, session: SparkSession) -> str | None:
        if self.jvm is not None and self.jvm.has_died:
            return self.jvm.death(0.0)
        java_context = session.sparkContext._jsc
        try:
            stopped = java_context is None or java_context.sc().isStopped()
        except _broken() as error:
            # The connection breaks a moment before the process has ended.
            death = None if self.jvm is None else self.jvm.death(DEATH_TIMEOUT)
            return death or f"{self.name} does not answer ({cause_of(error)})"
        return "Spark's context has been stopped" if stopped else None

    def expect_errors(self, seconds: float) -> None:
        if self.jvm is not None:
            self.jvm.expect_errors(seconds)

    def stop(self) -> None:
        if self.jvm is not None:
            self.jvm.stop(is_dead=self._found_dead)

    def kill(self) -> None:
        if self.jvm is not None:
            self.jvm.kill()


def _broken() -> tuple[type[Exception], ...]:
    """Return pyspark's exceptions for a JVM that has died, or whose SparkContext was stopped."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    return (Py4JError, ConnectionError, AttributeError)
