"""How a byte stream to a broker is opened. TCP here; tests bring in-memory streams of the same shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import trio


class Transport(Protocol):
    """Opens streams. Raises OSError where nobody answers at the address."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream: ...


class TcpTransport:
    """Plain TCP, with trio's happy eyeballs."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return await trio.open_tcp_stream(host, port)


def receiver(stream: trio.abc.ReceiveStream) -> Callable[[memoryview], Awaitable[int]]:
    """How bytes of the stream are received into a buffer: at least one, as many as it takes; none at the stream's end.

    Raises as the stream does, and OSError.
    """
    if isinstance(stream, trio.SocketStream):
        return stream.socket.recv_into

    async def copy_into(buffer: memoryview) -> int:
        data = await stream.receive_some(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    return copy_into
