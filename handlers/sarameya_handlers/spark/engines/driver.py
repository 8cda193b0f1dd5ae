"""A Spark driver as a pool meets it: classic Spark's JVM (classic.py) or a Spark Connect server (connect.py).

A driver lives once. What follows after its death, and who stops it, is `keeping.py`'s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Driver(ABC):
    """A driver that runs, or has run. Its methods block; they are called in worker threads, several at once."""

    patience: float = 20.0
    """Seconds for it to stop in order, its sessions included, before it is killed."""

    is_replaceable: bool = False
    """Whether another one is started in its place once it is given up."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is, at the beginning of a sentence."""

    @abstractmethod
    def open_session(self) -> SparkSession:
        """Another session, set up as all others are, which shares no settings, views or functions with them.

        Raises SparkGoneError if the driver is gone, HandlerError where it will have no sessions of ours.
        """

    @abstractmethod
    def close_session(self, session: SparkSession) -> None:
        """End a session of `open_session`, and all that still runs in it. Never raises; a dead driver is no matter."""

    @abstractmethod
    def tagged(self, session: SparkSession, tag: str) -> AbstractContextManager[None]:
        """Inside, what this thread has the session do bears the tag."""

    @abstractmethod
    def cancel(self, session: SparkSession, tag: str) -> None:
        """End what the session is doing under this tag. Another thread may begin more of it right afterwards."""

    @abstractmethod
    def death(self, session: SparkSession) -> str | None:
        """Ask the driver: what is to be said of it if it does not know the session any more, None if it does."""

    def expect_errors(self, seconds: float) -> None:
        """For so long, what the driver complains of is our own doing."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it, if it is ours; it may be dead already."""

    @abstractmethod
    def kill(self) -> None:
        """Let whatever waits for it, `stop` too, come to its end at once: it hangs."""
