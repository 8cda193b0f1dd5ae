"""The interface between a pool and a Spark driver: a classic JVM (classic.py) or a Connect server (connect.py).

A driver lives once. keeper.py stops it, and replaces it after its death.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Driver(ABC):
    """A driver that runs, or has run. Its methods block, and are called in several worker threads at once."""

    stop_timeout: float = 20.0
    """Seconds that it may take to stop, with its sessions, before it is killed."""

    is_replaceable: bool = False
    """True if another one is started in its place after it has been abandoned."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The driver's name, to begin a sentence with."""

    @abstractmethod
    def open_session(self) -> SparkSession:
        """Open another session, set up like all others. It shares no settings, views or functions with them.

        Raises:
            SparkGoneError: The driver is dead.
            HandlerError: The driver refuses our sessions.
        """

    @abstractmethod
    def close_session(self, session: SparkSession) -> None:
        """Close a session of `open_session`, and end what still runs in it. Never raises, even if the driver died."""

    @abstractmethod
    def tagged(self, session: SparkSession, tag: str) -> AbstractContextManager[None]:
        """Tag all requests that this thread sends in the session, for the length of a block."""

    @abstractmethod
    def cancel(self, session: SparkSession, tag: str) -> None:
        """Cancel what the session does under this tag. Another thread may start more of it right afterwards."""

    @abstractmethod
    def death(self, session: SparkSession) -> str | None:
        """Ask the driver for the session. Return how the driver died if it does not know it; None if it lives."""

    def expect_errors(self, seconds: float) -> None:
        """Expect errors that we cause ourselves, for this time."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the driver, if it is ours. It may be dead already."""

    @abstractmethod
    def kill(self) -> None:
        """Make all calls that wait for the driver end at once, including `stop`: it hangs."""
