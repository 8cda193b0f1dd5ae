"""Requests to the endpoints of members: only to allowed addresses, and with limits of time and size.

Any program may answer, not only a member.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from sarameya.service.dashboard import endpoints
from sarameya.service.dashboard.endpoints import MemberEndpoints, fetch_documents
from tests.service.dashboard.test_endpoint_document import member_document
from tests.service.dashboard.test_group_document import group, member

Serve = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def served(serve: Serve) -> AsyncIterator[str]:
    """Serve each connection to a loopback port by this function, and yield the URL."""

    async def one(stream: trio.SocketStream) -> None:
        try:
            async with stream:
                await serve(stream)
        except trio.BrokenResourceError:
            pass  # the client has closed the connection

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, one, [listener])
            yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
            nursery.cancel_scope.cancel()


def answering(text: bytes) -> Serve:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(text)

    return serve


async def fetched(url: str) -> object:
    (found,) = (await fetch_documents([url], "g")).values()
    return found


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def test_document_is_requested_at_its_path_with_its_host() -> None:
    requests: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        requests.append(bytes(await stream.receive_some()))
        await stream.send_all(ok(json.dumps(member_document()).encode()))

    async with served(serve) as url:
        assert await fetch_documents([f"{url}/a/", f"{url}/a/"], "g") == {
            f"{url.removeprefix('http://')}/a": member_document()
        }
        assert requests[0].startswith(b"GET /a/status.json HTTP/1.1\r\nHost: " + url.removeprefix("http://").encode())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "its endpoint answers 404 Not Found"),
        (b"HTTP/1.1 799 <b>\r\n\r\n", "its endpoint answers 799"),
        (b"SSH-2.0-OpenSSH\r\n", "the endpoint's answer is no HTTP"),
        (b"", "the endpoint's answer is no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "the endpoint's answer is no HTTP"),
        (ok(b"<html>"), "the endpoint's answer is no JSON"),
    ],
)
async def test_invalid_answer_is_reported_as_the_reason(text: bytes, why: str) -> None:
    async with served(answering(text)) as url:
        assert await fetched(url) == f"no status: {why}"


async def test_refused_connection_is_reported_as_the_reason() -> None:
    found = await fetched("http://127.0.0.1:1")
    assert isinstance(found, str)
    assert found == "no status: its endpoint does not answer: Connection refused"


async def test_endpoint_without_tls_is_reported_as_the_reason() -> None:
    async with served(answering(ok(b"{}"))) as url:
        found = await fetched(url.replace("http://", "https://"))
    assert isinstance(found, str)
    assert re.fullmatch(r"no status: its endpoint does not answer: \[SSL: .*\(_ssl\.c:\d+\)", found), found


async def test_redirection_is_not_followed() -> None:
    others: list[trio.SocketStream] = []

    async def serve_other(stream: trio.SocketStream) -> None:
        others.append(stream)

    async with served(serve_other) as other:
        sent_on = f"HTTP/1.1 302 Found\r\nLocation: {other}/status.json\r\nContent-Length: 0\r\n\r\n".encode()
        async with served(answering(sent_on)) as url:
            assert await fetched(url) == "no status: its endpoint answers 302 Found, which is not followed"
            await trio.testing.wait_all_tasks_blocked(0.05)
    assert others == []


async def test_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    async with served(answering(ok(json.dumps(member_document()).encode()))) as url:
        assert await fetched(url) == member_document()


async def test_endless_answer_is_aborted_at_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_TIMEOUT", 1.0)

    async def drip(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            await stream.send_all(b"x")
            await trio.sleep(0.01)

    async with served(drip) as url:
        assert await fetched(url) == "no status: its endpoint has not answered within 1 s"


async def test_too_large_answer_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_MAX_SIZE", 2**20)
    monkeypatch.setattr(endpoints, "_TIMEOUT", 50.0)

    async def flood(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await stream.send_all(b" " * 2**16)

    async with served(flood) as url:
        assert await fetched(url) == "no status: its endpoint answers more than 1 MiB"


async def test_requests_are_limited_at_once_and_in_total_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_TIMEOUT", 30.0)
    monkeypatch.setattr(endpoints, "_TOTAL_TIMEOUT", 2.0)
    now = most = 0

    async def silent(stream: trio.SocketStream) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await stream.receive_some()
        await stream.receive_some()
        now -= 1

    async with served(silent) as url:
        found = await fetch_documents([f"{url}/{number}" for number in range(40)], "g")
    assert most == 16
    assert list(found.values()) == ["no status: not requested within 2 s"] * 40


def test_port_is_requested_only_at_valid_addresses() -> None:
    hosts = ["10.0.0.1", "::1", "10.0.0.1", "evil.example", "169.254.169.254", "a@b/c?", "0.0.0.0", "::ffff:a9fe:a9fe"]
    known = group(*(member(f"m{number}", host) for number, host in enumerate(hosts)))
    urls, refused = MemberEndpoints(("http://a:1", "http://10.0.0.1:8080"), 8080).of(known)
    assert urls == ["http://a:1", "http://10.0.0.1:8080", "http://[::1]:8080"]
    no_address = "Kafka reports no IP address for it"
    special, mapped = "link-local, multicast, broadcast or unspecified", "an IPv4 address mapped to IPv6"
    assert refused == {
        "evil.example:8080": f"no status: {no_address}, so it is not requested",
        "169.254.169.254:8080": f"no status: its address is {special}, so it is not requested",
        "c?:8080": f"no status: {no_address}, so it is not requested",
        "0.0.0.0:8080": f"no status: its address is {special}, so it is not requested",
        "::ffff:a9fe:a9fe:8080": f"no status: its address is {mapped}, so it is not requested",
    }
    assert MemberEndpoints(("http://a:1",)).of(known) == (["http://a:1"], {})
