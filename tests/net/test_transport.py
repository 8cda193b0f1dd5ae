"""Bytes are received into a buffer, whatever the stream is."""

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
    told = why_not_connected(caught.value)
    assert told.startswith(why)
    assert "rrno" not in told


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (OSError("odd"), "odd"),
        (OverflowError("port must be 0-65535."), "port must be 0-65535."),
    ],
)
def test_error_without_a_number_of_the_system_s_is_told_as_it_is(error: Exception, why: str) -> None:
    assert why_not_connected(error) == why


async def tcp_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        ours = await trio.open_tcp_stream(*listener.socket.getsockname())
        return ours, await listener.accept()


def socket_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    ours, theirs = trio.socket.socketpair()
    return trio.SocketStream(ours), trio.SocketStream(theirs)


@pytest.mark.parametrize("pair", [socket_pair, memory_stream_pair])
async def test_receiver_fills_the_buffer_with_what_has_come(pair):
    ours, theirs = pair()
    async with ours, theirs:
        receive_into = receiver(ours)
        buffer = bytearray(b"........")
        await theirs.send_all(b"abc")
        assert await receive_into(memoryview(buffer)[2:], 1) == 3
        assert buffer == b"..abc..."
        await theirs.send_all(b"0123456789")
        assert await receive_into(memoryview(buffer)[4:], 4) == 4
        assert buffer == b"..ab0123"
        await theirs.aclose()
        assert await receive_into(memoryview(buffer), 100) == 6
        assert await receive_into(memoryview(buffer), 94) == 0


@pytest.mark.parametrize("pair", [socket_pair, memory_stream_pair])
async def test_receiver_on_a_closed_stream_raises_as_the_stream(pair):
    ours, theirs = pair()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def receive() -> None:
            with pytest.raises((trio.ClosedResourceError, OSError)):
                await receiver(ours)(memoryview(bytearray(8)), 1)

        await trio.testing.wait_all_tasks_blocked()
        await trio.aclose_forcefully(ours)
    await trio.aclose_forcefully(theirs)


async def test_few_bytes_are_received_at_once_after_many():
    ours, theirs = await tcp_pair()
    async with ours, theirs:
        receive_into = receiver(ours)
        buffer = bytearray(2**20)
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(theirs.send_all, bytes(300_000))
                awaited = 300_000
                while awaited:
                    awaited -= await receive_into(memoryview(buffer), awaited)

            async def send_a_few() -> None:
                await trio.testing.wait_all_tasks_blocked()
                await theirs.send_all(b"few")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_a_few)
                assert await receive_into(memoryview(buffer), 1) == 3


async def test_received_bytes_survive_an_early_close_by_the_peer():
    ours, theirs = await tcp_pair()
    async with ours, theirs:
        receive_into = receiver(ours)
        buffer = bytearray(2**20)
        received: list[int] = []

        async def receive() -> None:
            while count := await receive_into(memoryview(buffer), 2**20 - sum(received)):
                received.append(count)

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                await theirs.send_all(b"half of it")
                await trio.testing.wait_all_tasks_blocked(0.01)
                await theirs.aclose()
        assert sum(received) == 10


async def test_large_response_in_pieces_wakes_its_reader_rarely():
    ours, theirs = await tcp_pair()
    woken = 0

    async def send() -> None:
        for _ in range(64):
            await theirs.send_all(bytes(2**14))
            await trio.testing.wait_all_tasks_blocked()

    async with ours, theirs, trio.open_nursery() as nursery:
        nursery.start_soon(send)
        receive_into = receiver(ours)
        buffer = bytearray(2**20)
        awaited = 2**20
        with trio.fail_after(30):
            while awaited:
                awaited -= await receive_into(memoryview(buffer), awaited)
                woken += 1
    assert woken < 32


async def test_sender_sends_at_once_what_there_is_room_for():
    ours, theirs = socket_pair()
    async with ours, theirs:
        send_now = sender_now(ours)
        assert send_now(b"abc") == 3
        assert await theirs.receive_some(10) == b"abc"
        data = bytes(2**24)
        sent = send_now(data)
        assert 0 < sent < len(data)
        assert send_now(data) == 0
        await trio.aclose_forcefully(ours)
        assert send_now(b"abc") == 0


async def test_sender_of_a_stream_that_cannot_tell_sends_nothing():
    ours, theirs = memory_stream_pair()
    async with ours, theirs:
        assert sender_now(ours)(b"abc") == 0
