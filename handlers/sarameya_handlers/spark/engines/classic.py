"""Classic Spark as a `Driver`: sessions of one SparkContext, in a JVM of ours (jvm.py) or in somebody else's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import attrs

from sarameya_handlers.spark.engines.driver import Driver
from sarameya_handlers.spark.engines.jvm import Jvm
from sarameya_handlers.spark.errors import SparkGoneError, cause_of
from sarameya_handlers.spark.session_settings import make_safe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GIVEN = "spark.sarameya.given"
DEATH_TIMEOUT = 1.0
"""Seconds for a JVM to end whose connections have broken, so that its exit code can be told."""


def is_given(session: SparkSession) -> bool:
    """Whether it is of a Spark that somebody else has started, and may be at work with."""
    return session.conf.get(_GIVEN, "false") == "true"


@attrs.define(slots=True, eq=False)
class ClassicDriver(Driver):
    """The driver of `base`, from which all sessions are cloned: settings, temporary views and functions come along."""

    base: SparkSession
    jvm: Jvm | None = None
    """None if it is somebody else's."""
    _found_dead: bool = attrs.field(default=False, init=False)

    @property
    def name(self) -> str:
        return "Spark's JVM"

    @property
    def is_replaceable(self) -> bool:  # type: ignore[override]
        return self.jvm is not None

    def open_session(self) -> SparkSession:
        try:
            # newSession() would start from the driver's own settings, without what was set in the session since.
            java_session = self.base._jsparkSession.cloneSession()
            session = type(self.base)(self.base.sparkContext, java_session)
            make_safe(session)
            if self.jvm is None:
                session.conf.set(_GIVEN, "true")
            return session
        except Exception as error:
            if told := self.death(self.base):
                raise SparkGoneError(told, begun=False) from error
            raise

    def close_session(self, session: SparkSession) -> None:
        """Nothing: it is garbage of the JVM's once nobody has it, and its jobs bear tags of their own."""

    @contextmanager
    def tagged(self, session: SparkSession, tag: str) -> Iterator[None]:
        context = session.sparkContext
        context.addJobTag(tag)
        try:
            yield
        finally:
            # Threads are used again. If Spark is gone meanwhile, so is the tag.
            with suppress(*_broken()):
                context.removeJobTag(tag)

    def cancel(self, session: SparkSession, tag: str) -> None:
        session.sparkContext.cancelJobsWithTag(tag)

    def death(self, session: SparkSession) -> str | None:
        told = self._death(session)
        self._found_dead = told is not None
        return told

    def _death(self, session: SparkSession) -> str | None:
        if self.jvm is not None and self.jvm.has_died:
            return self.jvm.death(0.0)
        java_context = session.sparkContext._jsc
        try:
            stopped = java_context is None or java_context.sc().isStopped()
        except _broken() as error:
            # The connection breaks a moment before the process is gone.
            told = None if self.jvm is None else self.jvm.death(DEATH_TIMEOUT)
            return told or f"{self.name} does not answer ({cause_of(error)})"
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
    """What pyspark raises when the JVM has died, or its SparkContext was stopped through it."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    return (Py4JError, ConnectionError, AttributeError)
