"""Bytes received into a buffer, and sent at once, for each kind of stream."""

from __future__ import annotations

import socket

import pytest
import trio
from trio.testing import memory_stream_pair

from sarameya.net.transport import TcpTransport, receiver, sender_now, why_not_connected


@pytest.mark.parametrize(
    ("host", "why"),
    [("127.0.0.1", "Connection refused"), ("localhost", "Connection refused")],
)
async def test_connection_failure_shows_the_plain_cause(host: str, why: str) -> None:
    with pytest.raises(OSError) as caught:
        await TcpTransport().connect(host, 1)
    cause = why_not_connected(caught.value)
    assert cause.startswith(why)
    assert "rrno" not in cause


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (OSError("odd"), "odd"),
        (OverflowError("port must be 0-65535."), "port must be 0-65535."),
    ],
)
def test_error_without_errno_is_reported_unchanged(error: Exception, why: str) -> None:
    assert why_not_connected(error) == why


async def tcp_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        local = await trio.open_tcp_stream(*listener.socket.getsockname())
        return local, await listener.accept()


def socket_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    local, remote = trio.socket.socketpair()
    return trio.SocketStream(local), trio.SocketStream(remote)


@pytest.mark.parametrize("pair", [socket_pair, memory_stream_pair])
async def test_receiver_fills_the_buffer_with_received_bytes(pair):
    local, remote = pair()
    async with local, remote:
        receive_into = receiver(local)
        buffer = bytearray(b"........")
        await remote.send_all(b"abc")
        assert await receive_into(memoryview(buffer)[2:], 1) == 3
        assert buffer == b"..abc..."
        await remote.send_all(b"0123456789")
        assert await receive_into(memoryview(buffer)[4:], 4) == 4
        assert buffer == b"..ab0123"
        await remote.aclose()
        assert await receive_into(memoryview(buffer), 100) == 6
        assert await receive_into(memoryview(buffer), 94) == 0


@pytest.mark.parametrize("pair", [socket_pair, memory_stream_pair])
async def test_receiver_of_a_closed_stream_raises_the_streams_error(pair):
    local, remote = pair()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def receive() -> None:
            with pytest.raises((trio.ClosedResourceError, OSError)):
                await receiver(local)(memoryview(bytearray(8)), 1)

        await trio.testing.wait_all_tasks_blocked()
        await trio.aclose_forcefully(local)
    await trio.aclose_forcefully(remote)


async def test_few_bytes_are_received_at_once_after_many():
    local, remote = await tcp_pair()
    async with local, remote:
        receive_into = receiver(local)
        buffer = bytearray(2**20)
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(remote.send_all, bytes(300_000))
                awaited = 300_000
                while awaited:
                    awaited -= await receive_into(memoryview(buffer), awaited)

            async def send_a_few() -> None:
                await trio.testing.wait_all_tasks_blocked()
                await remote.send_all(b"few")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_a_few)
                assert await receive_into(memoryview(buffer), 1) == 3


async def test_received_bytes_survive_an_early_close_by_the_peer():
    local, remote = await tcp_pair()
    async with local, remote:
        receive_into = receiver(local)
        buffer = bytearray(2**20)
        received: list[int] = []

        async def receive() -> None:
            while count := await receive_into(memoryview(buffer), 2**20 - sum(received)):
                received.append(count)

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                await remote.send_all(b"half of it")
                await trio.testing.wait_all_tasks_blocked(0.01)
                await remote.aclose()
        assert sum(received) == 10


async def test_large_response_in_pieces_wakes_its_reader_rarely():
    local, remote = await tcp_pair()
    woken = 0

    async def send() -> None:
        for _ in range(64):
            await remote.send_all(bytes(2**14))
            await trio.testing.wait_all_tasks_blocked()

    async with local, remote, trio.open_nursery() as nursery:
        nursery.start_soon(send)
        receive_into = receiver(local)
        buffer = bytearray(2**20)
        awaited = 2**20
        with trio.fail_after(30):
            while awaited:
                awaited -= await receive_into(memoryview(buffer), awaited)
                woken += 1
    assert woken < 32


async def test_sender_sends_at_once_as_much_as_fits():
    local, remote = socket_pair()
    async with local, remote:
        send_now = sender_now(local)
        assert send_now(b"abc") == 3
        assert await remote.receive_some(10) == b"abc"
        data = bytes(2**24)
        sent = send_now(data)
        assert 0 < sent < len(data)
        assert send_now(data) == 0
        await trio.aclose_forcefully(local)
        assert send_now(b"abc") == 0


async def test_sender_of_a_stream_without_socket_sends_nothing():
    local, remote = memory_stream_pair()
    async with local, remote:
        assert sender_now(local)(b"abc") == 0
