"""Spark Connect's errors, and the closing of sessions. No server runs here; the integration tests have one."""

from __future__ import annotations

import atexit
import gc
import os
import threading
from typing import Any

import attrs
import grpc
import pytest
from pyspark.errors import PySparkAssertionError
from pyspark.errors.exceptions.connect import SparkConnectException, SparkConnectGrpcException
from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator as Responses

from sarameya import HandlerError
from sarameya_handlers.spark.engines.connect import ConnectDriver, connect_mode, is_connect, new_session
from sarameya_handlers.spark.errors import SparkGoneError


def grpc_error(code: grpc.StatusCode, details: str) -> Exception:
    text = (
        f'<_InactiveRpcError of RPC that terminated with:\n\tstatus = {code}\n\tdetails = "{details}"\n\tdebug = "x">'
    )
    return SparkConnectGrpcException(message=text, grpc_status_code=code)


REFUSED = grpc_error(
    grpc.StatusCode.UNAVAILABLE,
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: "
    "Connection refused",
)
CLOSED = SparkConnectGrpcException(message="", errorClass="INVALID_HANDLE.SESSION_CLOSED", messageParameters={})
CHANGED = SparkConnectGrpcException(message="", errorClass="INVALID_HANDLE.SESSION_CHANGED", messageParameters={})
NOT_FOUND = grpc_error(
    grpc.StatusCode.INTERNAL, "[INVALID_HANDLE.SESSION_NOT_FOUND] The handle x is invalid. SQLSTATE: HY000"
)
NO_SESSION = SparkConnectException(errorClass="NO_ACTIVE_SESSION", messageParameters={})
ANOTHER_SERVER = PySparkAssertionError("Received incorrect server side session identifier for request.")


@attrs.define(eq=False)
class FakeChannel:
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@attrs.define(eq=False)
class FakeClient:
    calls: list[str] = attrs.field(factory=list)
    _channel: FakeChannel = attrs.field(factory=FakeChannel, alias="_channel")

    def set_retry_policies(self, policies: list[Any]) -> None:
        self.calls.append(f"retries {policies[0].max_retries}")

    def release_session(self) -> None:
        self.calls.append("release")

    def close(self) -> None:
        assert self._channel.closed, "otherwise it waits for pending calls"
        self.calls.append("close")

    def _cleanup_ml_cache(self) -> None:
        raise AssertionError


@attrs.define(eq=False)
class FakeSession:
    """A session. Setting a property raises `set_error`, and reading one raises `get_error`."""

    set_error: Exception | None = None
    get_error: Exception | None = None
    client: FakeClient = attrs.field(factory=FakeClient)
    settings: dict[str, str] = attrs.field(factory=dict)

    @property
    def conf(self) -> FakeSession:
        return self

    def set(self, key: str, value: str) -> None:
        if self.set_error is not None:
            raise self.set_error
        self.settings[key] = value

    def get(self, key: str) -> str:
        if self.get_error is not None:
            raise self.get_error
        return "UTC"

    @property
    def getAll(self) -> dict[str, str]:
        self.get("any")
        return dict(self.settings)


def driver_of(session: FakeSession, **settings: str) -> ConnectDriver:
    return ConnectDriver("sc://there", lambda: session, settings)


def test_session_gets_its_settings_and_short_retries() -> None:
    session = FakeSession()
    assert driver_of(session, a="1", b="2").open_session() is session
    assert session.settings.items() >= {"a": "1", "b": "2", "spark.sql.files.ignoreCorruptFiles": "false"}.items()
    assert session.client.calls == ["retries 4"]


def test_closed_session_is_released() -> None:
    session = FakeSession()
    driver = driver_of(session)
    driver.open_session()
    atexit.register(session.client._cleanup_ml_cache)
    driver.close_session(session)
    assert session.client.calls[1:] == ["release", "close"]
    driver.kill()


def test_session_of_a_dead_server_is_closed_locally() -> None:
    session = FakeSession()
    driver = driver_of(session)
    driver.open_session()
    session.get_error = REFUSED
    driver.close_session(session)
    assert session.client.calls[1:] == ["close"]


def test_kill_closes_open_channels() -> None:
    session = FakeSession()
    driver = driver_of(session)
    driver.open_session()
    driver.kill()
    assert session.client._channel.closed


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (REFUSED, "does not answer (Failed to connect to remote host: Connection refused)"),
        (CLOSED, "has closed our session, which was idle for too long"),
        (CHANGED, "has lost our session: it was restarted"),
        (NO_SESSION, "has lost our session: it was restarted"),
        (NOT_FOUND, "has lost our session: it was restarted"),
        (ANOTHER_SERVER, "has lost our session: it was restarted"),
    ],
)
def test_death_of_the_server_is_described_by_its_cause(error: Exception, expected: str) -> None:
    assert (
        driver_of(FakeSession()).death(FakeSession(get_error=error)) == f"Spark Connect's server sc://there {expected}"
    )


def test_responding_session_is_alive() -> None:
    assert driver_of(FakeSession()).death(FakeSession()) is None


@pytest.mark.parametrize("error", [REFUSED, CLOSED, CHANGED])
def test_server_that_may_return_raises_spark_gone(error: Exception) -> None:
    session = FakeSession(get_error=error)
    with pytest.raises(SparkGoneError, match="server sc://there") as raised:
        driver_of(session).open_session()
    assert not raised.value.begun
    assert session.client._channel.closed


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (grpc_error(grpc.StatusCode.UNAUTHENTICATED, "no token"), "no token; add its token to the address: sc://host"),
        (grpc_error(grpc.StatusCode.UNIMPLEMENTED, "no method"), "no method; is this a Spark Connect server"),
        (
            SparkConnectGrpcException("no setting", errorClass="CANNOT_MODIFY_CONFIG", messageParameters={}),
            "set this property for the server itself, since sessions cannot change it",
        ),
    ],
)
def test_refusing_server_is_a_configuration_error(error: Exception, expected: str) -> None:
    session = FakeSession(set_error=error)
    with pytest.raises(HandlerError, match=expected):
        driver_of(session, a="1").open_session()
    assert session.client._channel.closed


def test_real_client_closes_without_a_server() -> None:
    driver = ConnectDriver.at("sc://localhost:1/;token=s3cret", {})
    with pytest.raises(SparkGoneError, match="Connection refused") as raised:
        driver.open_session()
    assert "s3cret" not in str(raised.value)


def test_garbage_collected_session_waits_for_no_lock() -> None:
    def collect() -> None:
        session = new_session("sc://127.0.0.1:1")
        session.client._channel.close()
        with Responses._get_or_create_release_thread_pool()._shutdown_lock:  # like in the middle of a request
            del session
            gc.collect()

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(20.0)
    assert not thread.is_alive()
    Responses.shutdown()


def test_connect_mode_is_set_only_inside_the_block() -> None:
    with connect_mode():
        assert os.environ["SPARK_CONNECT_MODE_ENABLED"] == "1"
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ


def test_existing_connect_mode_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with connect_mode():
        pass
    assert os.environ["SPARK_CONNECT_MODE_ENABLED"] == "1"


def test_connect_mode_is_not_set_while_classic_spark_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", object())
    with connect_mode():
        assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ
    assert "pyspark.sql.connect.functions" in caplog.text


def test_new_session_is_a_spark_connect_session() -> None:
    session = new_session("sc://127.0.0.1:1")
    session.client._channel.close()
    assert is_connect(session)
    assert not is_connect(object())
