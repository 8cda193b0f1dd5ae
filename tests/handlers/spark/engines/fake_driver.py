"""A fake Spark driver, which a test can make die, refuse sessions or hang. It records the calls that it receives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from sarameya_handlers.spark.engines.driver import Driver
from sarameya_handlers.spark.errors import SparkGoneError


@attrs.define(eq=False)
class FakeSession:
    """A fake SparkSession."""

    number: int
    closed: bool = False
    """True if the driver has closed the session by itself."""


@attrs.define(eq=False)
class FakeDriver(Driver):
    """A driver without Spark."""

    stop_timeout = 5.0

    is_replaceable: bool = True
    dead: str | None = None
    """The cause of its death; None while it runs."""
    refusal: Exception | None = None
    """The exception that opening a session raises."""
    hangs: bool = False
    """True if `stop` blocks until `kill` is called."""
    sessions: list[FakeSession] = attrs.field(factory=list)
    """The opened sessions."""
    closed: list[FakeSession] = attrs.field(factory=list)
    """The sessions that the pool has closed."""
    tags: dict[int, list[str]] = attrs.field(factory=dict)
    """Thread id -> the tags that are set now."""
    cancelled: list[tuple[FakeSession, str]] = attrs.field(factory=list)
    """The session and the tag of each cancellation."""
    was_cancelled: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))
    expected: int = 0
    """Number of calls of `expect_errors`."""
    stops: int = 0
    killed: threading.Event = attrs.field(factory=threading.Event)
    answers: threading.Event = attrs.field(factory=threading.Event)
    """While this event is not set, `death` blocks."""

    name = "The fake"

    def __attrs_post_init__(self) -> None:
        self.answers.set()

    def open_session(self) -> Any:
        if self.refusal is not None:
            raise self.refusal
        if self.dead is not None:
            raise SparkGoneError(self.dead, begun=False)
        self.sessions.append(FakeSession(len(self.sessions) + 1))
        return self.sessions[-1]

    def close_session(self, session: Any) -> None:
        self.closed.append(session)

    @contextmanager
    def tagged(self, session: Any, tag: str) -> Iterator[None]:
        tags = self.tags.setdefault(threading.get_ident(), [])
        tags.append(tag)
        try:
            yield
        finally:
            tags.remove(tag)

    def cancel(self, session: Any, tag: str) -> None:
        self.cancelled.append((session, tag))
        self.was_cancelled.release()

    def death(self, session: Any) -> str | None:
        self.answers.wait()
        return self.dead or ("session closed" if session.closed else None)

    def expect_errors(self, seconds: float) -> None:
        self.expected += 1

    def stop(self) -> None:
        if self.hangs:
            self.killed.wait()
        self.stops += 1

    def kill(self) -> None:
        self.killed.set()
        self.answers.set()
