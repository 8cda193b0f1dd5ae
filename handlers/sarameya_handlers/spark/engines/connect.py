"""Spark Connect as a `Driver`: sessions of a shared server, each with its own channel.

No call here waits for long: by default, pyspark would retry a lost server for ten minutes. Instead keeper.py waits for
the server's return, and can be cancelled.
"""

from __future__ import annotations

import atexit
import copy
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import attrs

from sarameya import HandlerError
from sarameya_handlers.spark.engines.driver import Driver
from sarameya_handlers.spark.errors import SparkGoneError, cause_of
from sarameya_handlers.spark.options import without_token
from sarameya_handlers.spark.session_settings import make_safe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

_MODE = "SPARK_CONNECT_MODE_ENABLED"
_RETRIES: dict[str, Any] = {"max_retries": 4, "initial_backoff": 50, "max_backoff": 1000}
"""Retries of a call whose connection fails, for two seconds (backoffs are in milliseconds)."""
_CHANNEL = (
    # A channel that has lost its server reconnects after at most a second, instead of two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Otherwise, channels to one server share a connection and its state.
    ("grpc.use_local_subchannel_pool", 1),
)
_UNKNOWN_SESSION = ("INVALID_HANDLE", "NO_ACTIVE_SESSION")
"""Conditions by which a server, or pyspark itself, reports an unknown session."""
_PERMANENT = {
    "UNAUTHENTICATED": "add its token to the address: sc://host:port/;token=...",
    "PERMISSION_DENIED": "ask its owner to admit this user",
    "UNIMPLEMENTED": "is this a Spark Connect server of Spark 4.1 or later?",
}
"""gRPC codes with which a server refuses a session until a person changes something, and the remedies."""


@attrs.frozen(slots=True, eq=False)
class ConnectDriver(Driver):
    """Driver of the server at `where`. `_connect` makes a session of it, and may send requests."""

    stop_timeout = 3.0

    where: str
    _connect: Callable[[], Any]
    _settings: Mapping[str, str] = attrs.field(factory=dict)
    _open: list[Any] = attrs.field(factory=list, init=False)

    @classmethod
    def at(cls, url: str, settings: Mapping[str, str]) -> ConnectDriver:
        """Return the driver of the server at `sc://host:port/;…`. Each session gets these settings."""
        from pyspark.sql.connect.client import DefaultChannelBuilder

        def connect() -> Any:
            return new_session(DefaultChannelBuilder(url, list(_CHANNEL)))

        return cls(without_token(url), connect, settings)

    @classmethod
    def of(cls, session: Any) -> ConnectDriver:
        """Return the driver of a user's session. Others are cloned from it with its settings, views and functions."""
        return cls(f"at {session.client.host}", lambda: _clone(session))

    @property
    def name(self) -> str:
        return f"Spark Connect's server {self.where}"

    def open_session(self) -> SparkSession:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        # pyspark warns, and then raises the error. If warnings were errors, the warning would replace the error.
        warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", UserWarning)
        session: Any = None
        try:
            session = self._connect()
            session.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
            self._open.append(session)
            for key, value in self._settings.items():
                session.conf.set(key, value)
            make_safe(session)
        except Exception as error:
            if session is not None:
                self._discard(session)
            raise self._open_error(error) from error
        return cast("SparkSession", session)

    def close_session(self, session: Any) -> None:
        with suppress(Exception):  # if this fails, the server closes the session by itself an hour later
            if _death_of(session) is None:
                session.client.release_session()
        self._discard(session)

    @contextmanager
    def tagged(self, session: Any, tag: str) -> Iterator[None]:
        # The client adds the tag to each request of this thread.
        session.addTag(tag)
        try:
            yield
        finally:
            session.removeTag(tag)

    def cancel(self, session: Any, tag: str) -> None:
        session.interruptTag(tag)

    def death(self, session: Any) -> str | None:
        reason = _death_of(session)
        return None if reason is None else f"{self.name} {reason}"

    def stop(self) -> None:
        """Do nothing: the server is not ours."""

    def kill(self) -> None:
        """Close the channels, so that calls that wait for a response fail."""
        for session in tuple(self._open):
            session.client._channel.close()

    def _discard(self, session: Any) -> None:
        """Close the channel of a session that is released or dead."""
        with suppress(ValueError):
            self._open.remove(session)
        _close(session.client)

    def _open_error(self, error: Exception) -> Exception:
        """Return the error if no session was opened: HandlerError if a person must act first."""
        code, condition = _code(error), _condition(error)
        if condition.startswith("CANNOT_MODIFY"):
            hint = "set this property for the server itself, since sessions cannot change it"
        else:
            hint = _PERMANENT.get(code, "")
        if hint and not condition.startswith(_UNKNOWN_SESSION):
            return HandlerError(f"{self.name} has refused a session: {_one_line(error)}; {hint}")
        return SparkGoneError(f"{self.name} {_describe(error)}", begun=False)


@contextmanager
def connect_mode() -> Iterator[None]:
    """Let `pyspark.sql.functions` return Spark Connect's functions inside a block, as `builder.remote` of pyspark does.

    Applies to the whole process. If the process has a classic Spark, too, `pyspark.sql.functions` stays classic.
    """
    from pyspark import SparkContext

    has_classic = SparkContext._active_spark_context is not None
    if has_classic:
        logger.warning(
            "this process has a classic Spark beside Spark Connect: "
            "a transform needs the functions of pyspark.sql.connect.functions"
        )
    if has_classic or _MODE in os.environ:
        yield
        return
    os.environ[_MODE] = "1"
    try:
        yield
    finally:
        os.environ.pop(_MODE, None)


def is_connect(session: object) -> bool:
    """Return whether a session is Spark Connect's. All clients of a server share its driver."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(session).__mro__)


def new_session(connection: Any, **more: Any) -> Any:
    """Return a pyspark session that does nothing when it is garbage-collected. Its owner closes it."""
    return _session_class()(connection, **more)


@cache
def _session_class() -> Any:
    """Return a session class without pyspark's `__del__`.

    That method closes the client in the thread in which the garbage collector happens to run, and waits there for the
    lock of a pool that all clients share. If that thread is using the pool already, it deadlocks.
    """
    from pyspark.sql.connect.session import SparkSession

    class Session(SparkSession):
        def __del__(self) -> None: ...

    return Session


def _clone(session: Any) -> Any:
    # Before its first request a session exists only in the client, and the server cannot clone it.
    _ping(session)
    # Only the clone's id is needed: a new session gets it with a copy of the clone's channel builder.
    cloned = session.client.clone()
    builder = copy.deepcopy(cloned._builder)
    _close(cloned)
    for option in _CHANNEL:
        builder.setChannelOption(*option)
    return new_session(builder, userId=session.client._user_id)


def _close(client: Any) -> None:
    """Close a client's channel, and drop what pyspark has kept for it."""
    # The channel first: `close` waits for pending calls, and the server may hang.
    client._channel.close()
    client.close()
    # Otherwise pyspark would keep the client until the process ends, and then request the removal of its models.
    atexit.unregister(client._cleanup_ml_cache)


def _ping(session: Any) -> None:
    """Send the smallest request for which the server must know the session."""
    session.conf.get("spark.sql.session.timeZone")


def _death_of(session: Any) -> str | None:
    try:
        _ping(session)
    except Exception as error:  # noqa: BLE001 - pyspark raises many types; with any of them the session is dead
        return _describe(error)
    return None


def _describe(error: Exception) -> str:
    """Describe what has happened to a server or to its session, as the rest of a sentence about the server."""
    from pyspark.errors import PySparkAssertionError

    condition = _condition(error)
    if condition == "INVALID_HANDLE.SESSION_CLOSED":
        return "has closed our session, which was idle for too long"
    if condition.startswith(_UNKNOWN_SESSION) or isinstance(error, PySparkAssertionError):
        return "has lost our session: it was restarted"
    return f"does not answer ({_one_line(error)})"


def _code(error: Exception) -> str:
    """Return gRPC's name of the error; empty if it was not gRPC's."""
    read = getattr(error, "getGrpcStatusCode", None) or getattr(error, "code", None)
    code = read() if callable(read) else None
    return str(getattr(code, "name", ""))


def _condition(error: Exception) -> str:
    """Return Spark's name of the error condition; empty if it has none."""
    read = getattr(error, "getCondition", None)
    if condition := read() if callable(read) else None:
        return str(condition)
    # For errors of gRPC that pyspark does not convert.
    named = re.match(r"\[([A-Z_]+(?:\.[A-Z_]+)*)\] ", _one_line(error))
    return named[1] if named else ""


def _one_line(error: Exception) -> str:
    """Return the error in one line. In gRPC's text, the message follows the address that was tried last."""
    details = re.search(r'details = "(?:.*last error: \w+: (?:ipv[46]:\S+: )?)?(.*)"', str(error))
    return details[1] if details else cause_of(error)
