"""A registry over HTTP: the one of the tests' kit, and faulty servers."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import attrs
import pytest
import trio

from sarameya import RegistryError, UnknownSubjectError
from sarameya.registry.client import Registry
from sarameya.registry.http import MAX_BYTES, Http
from tests.registry.kit import SmallRegistry, at


@pytest.fixture
def small() -> Iterator[SmallRegistry]:
    with SmallRegistry() as registry:
        yield registry


def test_registered_schema_is_found_by_id_and_by_subject(small: SmallRegistry) -> None:
    number = small.register("orders-value", '"long"')
    registry = Registry(small.options)
    assert registry.schemas([number])[number].text == '"long"'
    assert registry.version("orders-value") == registry.version("orders-value", 1) == registry.schemas([number])[number]
    with pytest.raises(UnknownSubjectError):
        registry.version("orders-value", 2)


@pytest.mark.parametrize(
    ("more", "header"),
    [
        ({}, None),
        ({"username": "me", "password": "pä:ss"}, "Basic bWU6cMOkOnNz"),
        ({"token": "t0ken"}, "Bearer t0ken"),
    ],
)
def test_credentials_are_sent(small: SmallRegistry, more: dict[str, str], header: str | None) -> None:
    number = small.register("s", '"long"')
    Registry(attrs.evolve(small.options, **more)).schemas([number])
    assert small.headers.get("Authorization") == header


def test_schema_is_looked_up_and_registered_by_post(small: SmallRegistry) -> None:
    registry = Registry(small.options)
    with pytest.raises(UnknownSubjectError):
        registry.registered("s", "AVRO", '"long"')
    number = registry.registered("s", "AVRO", '"long"', register=True).id
    assert registry.registered("s", "AVRO", '"long"').id == number
    assert small.headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
    assert registry.version("s").text == '"long"'


def test_redirection_is_not_followed(small: SmallRegistry) -> None:
    small.fault = lambda _: (302, b"")
    with pytest.raises(RegistryError, match="answers with status 302"):
        Registry(small.options).schemas([1])
    assert small.requests == ["/schemas/ids/1"]


def test_response_above_the_size_limit_raises(small: SmallRegistry) -> None:
    small.fault = lambda _: (200, b" " * (MAX_BYTES + 1))
    with pytest.raises(RegistryError, match=f"does not answer: OSError: the answer has more than {MAX_BYTES} bytes"):
        Http(small.options, lambda: None).request(small.url)


def test_incomplete_response_raises(small: SmallRegistry) -> None:
    def broken(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        request.wfile = io.BytesIO()
        request.connection.shutdown(socket.SHUT_RDWR)

    small.fault = broken
    with pytest.raises(RegistryError, match=r"no schema|does not answer"):
        Registry(small.options).schemas([1])


def test_refused_connection_raises() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(RegistryError, match="does not answer: ConnectionRefusedError"):
        Http(at(url), lambda: None).request(url)


def test_slow_response_raises_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                try:
                    while True:
                        connection.sendall(b" ")
                        time.sleep(0.02)
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        began = time.monotonic()
        with pytest.raises(RegistryError, match=r"does not answer: TimeoutError: the answer did not end within 0\.2 s"):
            Http(at(url, timeout=0.2), lambda: None).request(url)
        assert time.monotonic() - began < 2
        thread.join()


async def test_cancelled_request_in_a_trio_thread_is_not_retried(small: SmallRegistry) -> None:
    registry = Registry(small.options)
    with trio.move_on_after(0.1) as scope:
        await trio.to_thread.run_sync(registry.schemas, [1])
    assert scope.cancelled_caught
    assert small.requests == ["/schemas/ids/1"]
