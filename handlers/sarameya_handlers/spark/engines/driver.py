"""The interface between a pool and a Spark driver: a classic JVM (classic.py) or a Connect server (connect.py).

A driver is started once. keeper.py stops it, and starts another after its death.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Driver(ABC):
    """A Spark driver, alive or dead. Its methods block, and several worker threads call them at once."""

    stop_timeout: float = 20.0
    """Seconds for the driver and its sessions to stop before the driver is killed."""

    is_replaceable: bool = False
    """True if another driver can be started after this one was abandoned."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The driver's name, as the subject of a message."""

    @abstractmethod
    def open_session(self) -> SparkSession:
        """Open another session with the same set-up. Sessions share no settings, views or functions.

        Raises:
            SparkGoneError: The driver is dead.
            HandlerError: The driver refuses our sessions.
        """

    @abstractmethod
    def close_session(self, session: SparkSession) -> None:
        """Close a session of `open_session`, and end its operations. Never raises, even if the driver died."""

    @abstractmethod
    def tagged(self, session: SparkSession, tag: str) -> AbstractContextManager[None]:
        """Tag all requests that this thread sends in the session, for the length of a block."""

    @abstractmethod
    def cancel(self, session: SparkSession, tag: str) -> None:
        """Cancel the session's operations with this tag. Another thread may start further ones right afterwards."""

    @abstractmethod
    def death(self, session: SparkSession) -> str | None:
        """Check that the driver responds and has the session. Return how it died; None if it is alive."""

    def expect_errors(self, seconds: float) -> None:
        """Expect errors that this process causes itself, for this many seconds."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the driver, if it is ours. It may be dead already."""

    @abstractmethod
    def kill(self) -> None:
        """Kill a driver that hangs: all calls that wait for it end at once, including `stop`."""
