"""A Spark driver without Spark: it dies, refuses, hangs as a test says, and keeps what it was asked for."""

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
    """A SparkSession, with nothing but a number."""

    number: int
    closed: bool = False
    """Whether the driver knows it no more."""


@attrs.define(eq=False)
class FakeDriver(Driver):
    stop_timeout = 5.0

    is_replaceable: bool = True
    dead: str | None = None
    refusal: Exception | None = None
    """What opening a session raises."""
    hangs: bool = False
    """Whether stopping takes until it is killed."""
    sessions: list[FakeSession] = attrs.field(factory=list)
    closed: list[FakeSession] = attrs.field(factory=list)
    tags: dict[int, list[str]] = attrs.field(factory=dict)
    """Those set now, by thread."""
    cancelled: list[tuple[FakeSession, str]] = attrs.field(factory=list)
    was_cancelled: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))
    expected: int = 0
    stops: int = 0
    killed: threading.Event = attrs.field(factory=threading.Event)
    answers: threading.Event = attrs.field(factory=threading.Event)
    """While it is not set, whoever asks it waits."""

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
        mine = self.tags.setdefault(threading.get_ident(), [])
        mine.append(tag)
        try:
            yield
        finally:
            mine.remove(tag)

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
