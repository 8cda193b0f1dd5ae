"""Bytes are received into a buffer, whatever the stream is."""

from __future__ import annotations

import pytest
import trio
from trio.testing import memory_stream_pair

from sarameya.net.transport import receiver


def socket_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    ours, theirs = trio.socket.socketpair()
    return trio.SocketStream(ours), trio.SocketStream(theirs)


@pytest.mark.parametrize("pair", [socket_pair, memory_stream_pair])
async def test_receiver_fills_as_much_of_the_buffer_as_has_come_and_nothing_at_the_end(pair):
    ours, theirs = pair()
    async with ours, theirs:
        receive_into = receiver(ours)
        buffer = bytearray(b"........")
        await theirs.send_all(b"abc")
        assert await receive_into(memoryview(buffer)[2:]) == 3
        assert buffer == b"..abc..."
        await theirs.send_all(b"0123456789")
        assert await receive_into(memoryview(buffer)[4:]) == 4
        assert buffer == b"..ab0123"
        await theirs.aclose()
        assert await receive_into(memoryview(buffer)) == 6
        assert await receive_into(memoryview(buffer)) == 0


@pytest.mark.parametrize("pair", [socket_pair, memory_stream_pair])
async def test_receiver_on_a_stream_that_is_closed_meanwhile_raises_as_the_stream_does(pair):
    ours, theirs = pair()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def receive() -> None:
            with pytest.raises((trio.ClosedResourceError, OSError)):
                await receiver(ours)(memoryview(bytearray(8)))

        await trio.testing.wait_all_tasks_blocked()
        await trio.aclose_forcefully(ours)
    await trio.aclose_forcefully(theirs)
