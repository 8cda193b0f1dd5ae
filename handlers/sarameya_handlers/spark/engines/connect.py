"""Spark Connect as a `Driver`: sessions of a shared server, each with its own channel.

No call here waits for long: by default, pyspark would retry a lost server for ten minutes. keeper.py waits for its
return, and can be cancelled.
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
    # A channel that has lost its server tries again every second, instead of every two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Otherwise, channels to one server share a connection and its state.
    ("grpc.use_local_subchannel_pool", 1),
)
_UNKNOWN_SESSION = ("INVALID_HANDLE", "NO_ACTIVE_SESSION")
"""Conditions by which a server, or pyspark itself, reports an unknown session."""
_PERMANENT = {
    "UNAUTHENTICATED": "give its token along: sc://host:port/;token=...",
    "PERMISSION_DENIED": "have its owner let this user in",
    "UNIMPLEMENTED": "is it one, of Spark 4.1 or later?",
}
"""gRPC codes of a server that refuses us until a person changes something, with the remedy."""


@attrs.frozen(slots=True, eq=False)
class ConnectDriver(Driver):
    """Driver of the server `where`. `_connect` opens a session there, and may send requests."""

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
        """Return the driver of a user's session. Sessions are cloned from it with settings, views and functions."""
        return cls(f"at {session.client.host}", lambda: _clone(session))

    @property
    def name(self) -> str:
        return f"Spark Connect's server {self.where}"

    def open_session(self) -> SparkSession:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        # The error is raised as well. If warnings were errors, the warning would be raised instead of it.
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
        with suppress(Exception):  # the server drops the session by itself an hour later
            if _death_of(session) is None:
                session.client.release_session()
        self._discard(session)

    @contextmanager
    def tagged(self, session: Any, tag: str) -> Iterator[None]:
        # The client's own tag for this thread: it is sent with each request.
        session.addTag(tag)
        try:
            yield
        finally:
            session.removeTag(tag)

    def cancel(self, session: Any, tag: str) -> None:
        session.interruptTag(tag)

    def death(self, session: Any) -> str | None:
        why = _death_of(session)
        return None if why is None else f"{self.name} {why}"

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
        """Return the error if no session was opened: HandlerError if the server says that a person must act."""
        code, condition = _code(error), _condition(error)
        if condition.startswith("CANNOT_MODIFY"):
            hint = "give the server itself what is no setting of a session"
        else:
            hint = _PERMANENT.get(code, "")
        if hint and not condition.startswith(_UNKNOWN_SESSION):
            return HandlerError(f"{self.name} opens no session for us: {_one_line(error)}; {hint}")
        return SparkGoneError(f"{self.name} {_describe(error)}", begun=False)


@contextmanager
def connect_mode() -> Iterator[None]:
    """Make `pyspark.sql.functions` return Spark Connect's functions in a block, as pyspark's own way to a server does.

    Applies to the whole process. If the process has a classic Spark, too, its functions stay.
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
    """Return whether a session is Spark Connect's. Then all who share the server share its driver."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(session).__mro__)


def new_session(connection: Any, **more: Any) -> Any:
    """Return a pyspark session that does nothing when it is collected. Its owner closes it."""
    return _session_class()(connection, **more)


@cache
def _session_class() -> Any:
    """Return a session class without pyspark's `__del__`.

    That method closes the client in whatever thread the collector runs, and waits there for the lock of a pool that all
    clients share. If that thread was just using the pool, it waits for itself, for ever.
    """
    from pyspark.sql.connect.session import SparkSession

    class Session(SparkSession):
        def __del__(self) -> None: ...

    return Session


def _clone(session: Any) -> Any:
    # Before its first request a session exists only in the client, and the server cannot clone it.
    _ping(session)
    # Only the clone's id is needed: it is given to a copy of the builder of the existing session's client.
    cloned = session.client.clone()
    builder = copy.deepcopy(cloned._builder)
    _close(cloned)
    for option in _CHANNEL:
        builder.setChannelOption(*option)
    return new_session(builder, userId=session.client._user_id)


def _close(client: Any) -> None:
    """Close a client's channel, and drop what pyspark has kept for it."""
    # The channel first: `close` waits for calls that are on their way to a server that may hang.
    client._channel.close()
    client.close()
    # Otherwise pyspark would keep the client until the process ends, and then ask it for its models.
    atexit.unregister(client._cleanup_ml_cache)


def _ping(session: Any) -> None:
    """Send the smallest request for which the server must know the session."""
    session.conf.get("spark.sql.session.timeZone")


def _death_of(session: Any) -> str | None:
    try:
        _ping(session)
    except Exception as error:  # noqa: BLE001 - pyspark has many; with any of them the session is dead
        return _describe(error)
    return None


def _describe(error: Exception) -> str:
    """Return what has happened to a server, or to a session on it."""
    from pyspark.errors import PySparkAssertionError

    condition = _condition(error)
    if condition == "INVALID_HANDLE.SESSION_CLOSED":
        return "has closed our session, which was idle for too long"
    if condition.startswith(_UNKNOWN_SESSION) or isinstance(error, PySparkAssertionError):
        return "no longer knows our session: it was restarted"
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
    # For errors of gRPC that pyspark passes on.
    named = re.match(r"\[([A-Z_]+(?:\.[A-Z_]+)*)\] ", _one_line(error))
    return named[1] if named else ""


def _one_line(error: Exception) -> str:
    """Return the error in one line. gRPC's own message is within its text, after the address tried last."""
    details = re.search(r'details = "(?:.*last error: \w+: (?:ipv[46]:\S+: )?)?(.*)"', str(error))
    return details[1] if details else cause_of(error)
