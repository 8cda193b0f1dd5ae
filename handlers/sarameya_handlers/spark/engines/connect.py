"""Spark Connect as a `Driver`: sessions of a server that others use too, each over a channel of its own.

Whatever goes wrong, nothing here waits for long: pyspark by itself would retry a server that is gone for ten minutes.
Waiting for it to come back is `keeping.py`'s, in time that can be cancelled.
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
"""Of a call that fails because the connection does: for two seconds (backoffs are in milliseconds)."""
_CHANNEL = (
    # A channel that has lost its server looks for it each second, not each second minute.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Else channels to one server share a connection, and what is known about it.
    ("grpc.use_local_subchannel_pool", 1),
)
_FORGOTTEN = ("INVALID_HANDLE", "NO_ACTIVE_SESSION")
"""Conditions by which a server, or pyspark itself, says that it knows a session no more."""
_PERMANENT = {
    "UNAUTHENTICATED": "give its token along: sc://host:port/;token=...",
    "PERMISSION_DENIED": "have its owner let this user in",
    "UNIMPLEMENTED": "is it one, of Spark 4.1 or later?",
}
"""gRPC's codes for a server that will not have us until a person has changed something, and what that is."""


@attrs.frozen(slots=True, eq=False)
class ConnectDriver(Driver):
    """The server that `where` names; `_connect` makes a session there, and may send something for it."""

    patience = 3.0

    where: str
    _connect: Callable[[], Any]
    _settings: Mapping[str, str] = attrs.field(factory=dict)
    _open: list[Any] = attrs.field(factory=list, init=False)

    @classmethod
    def at(cls, url: str, settings: Mapping[str, str]) -> ConnectDriver:
        """The server at `sc://host:port/;…`, where each session has these settings."""
        from pyspark.sql.connect.client import DefaultChannelBuilder

        def connect() -> Any:
            return new_session(DefaultChannelBuilder(url, list(_CHANNEL)))

        return cls(without_token(url), connect, settings)

    @classmethod
    def of(cls, session: Any) -> ConnectDriver:
        """The server of somebody's session, which others are cloned from: settings, views and functions come along."""
        return cls(f"at {session.client.host}", lambda: _clone(session))

    @property
    def name(self) -> str:
        return f"Spark Connect's server {self.where}"

    def open_session(self) -> SparkSession:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        # Of what is raised as well; where warnings are errors it would be raised instead.
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
                self._leave(session)
            raise self._refusal(error) from error
        return cast("SparkSession", session)

    def close_session(self, session: Any) -> None:
        with suppress(Exception):  # the server forgets it by itself, an hour later
            if _why_dead(session) is None:
                session.client.release_session()
        self._leave(session)

    @contextmanager
    def tagged(self, session: Any, tag: str) -> Iterator[None]:
        # The client's own, for this thread: it goes along with each request.
        session.addTag(tag)
        try:
            yield
        finally:
            session.removeTag(tag)

    def cancel(self, session: Any, tag: str) -> None:
        session.interruptTag(tag)

    def death(self, session: Any) -> str | None:
        why = _why_dead(session)
        return None if why is None else f"{self.name} {why}"

    def stop(self) -> None:
        """Nothing: it is not ours."""

    def kill(self) -> None:
        """Close the channels: what waits for an answer is told that there will be none."""
        for session in tuple(self._open):
            session.client._channel.close()

    def _leave(self, session: Any) -> None:
        """Close the channel of a session, which is released or of no use any more."""
        with suppress(ValueError):
            self._open.remove(session)
        _close(session.client)

    def _refusal(self, error: Exception) -> Exception:
        """What to raise where no session was opened: HandlerError where the server says that a person must act."""
        code, condition = _code(error), _condition(error)
        if condition.startswith("CANNOT_MODIFY"):
            hint = "give the server itself what is no setting of a session"
        else:
            hint = _PERMANENT.get(code, "")
        if hint and not condition.startswith(_FORGOTTEN):
            return HandlerError(f"{self.name} opens no session for us: {_said(error)}; {hint}")
        return SparkGoneError(f"{self.name} {_words(error)}", begun=False)


@contextmanager
def connect_mode() -> Iterator[None]:
    """Inside, pyspark's functions (`pyspark.sql.functions`) are Spark Connect's, as with pyspark's own way to a server.

    For the whole process, which may have a classic Spark of its own: then they stay that one's.
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
    """Whether a session is Spark Connect's: then all who share the server share its driver."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(session).__mro__)


def new_session(connection: Any, **more: Any) -> Any:
    """A session of pyspark's that does nothing when it is collected: whoever has it closes it."""
    return _session_class()(connection, **more)


@cache
def _session_class() -> Any:
    """Without pyspark's own `__del__`, which closes its client, in whatever thread the collector happens to run, and
    waits there for the lock of a pool that all clients share; where that thread was about to use the pool it waits for
    itself, for ever."""
    from pyspark.sql.connect.session import SparkSession

    class Session(SparkSession):
        def __del__(self) -> None: ...

    return Session


def _clone(session: Any) -> Any:
    # Before its first request a session is one of the client's alone, which the server cannot clone.
    _ask(session)
    # Of the clone only the id is needed: it goes into what made the client of the session that is there.
    cloned = session.client.clone()
    builder = copy.deepcopy(cloned._builder)
    _close(cloned)
    for option in _CHANNEL:
        builder.setChannelOption(*option)
    return new_session(builder, userId=session.client._user_id)


def _close(client: Any) -> None:
    """Close a client's channel, and let go of what pyspark has kept for it."""
    # The channel first: `close` waits for calls that are on their way to a server that may hang.
    client._channel.close()
    client.close()
    # Else it would be kept to the end of the process, and asked for its models then.
    atexit.unregister(client._cleanup_ml_cache)


def _ask(session: Any) -> None:
    """The smallest question to which the server must know the session."""
    session.conf.get("spark.sql.session.timeZone")


def _why_dead(session: Any) -> str | None:
    try:
        _ask(session)
    except Exception as error:  # noqa: BLE001 - pyspark has many; the session is of no use with any of them
        return _words(error)
    return None


def _words(error: Exception) -> str:
    """What has become of a server, or of a session on it."""
    from pyspark.errors import PySparkAssertionError

    condition = _condition(error)
    if condition == "INVALID_HANDLE.SESSION_CLOSED":
        return "has closed our session, which was idle for too long"
    if condition.startswith(_FORGOTTEN) or isinstance(error, PySparkAssertionError):
        return "knows our session no more: it has been started anew"
    return f"does not answer ({_said(error)})"


def _code(error: Exception) -> str:
    """gRPC's name for what went wrong, "" if it did not go wrong there."""
    asked = getattr(error, "getGrpcStatusCode", None) or getattr(error, "code", None)
    code = asked() if callable(asked) else None
    return str(getattr(code, "name", ""))


def _condition(error: Exception) -> str:
    """Spark's name for what went wrong, "" if it has none."""
    asked = getattr(error, "getCondition", None)
    if condition := asked() if callable(asked) else None:
        return str(condition)
    # Where pyspark passes on what gRPC has raised.
    named = re.match(r"\[([A-Z_]+(?:\.[A-Z_]+)*)\] ", _said(error))
    return named[1] if named else ""


def _said(error: Exception) -> str:
    """One line: gRPC's own is in the middle of what it prints, behind which of the addresses it tried last."""
    details = re.search(r'details = "(?:.*last error: \w+: (?:ipv[46]:\S+: )?)?(.*)"', str(error))
    return details[1] if details else cause_of(error)
