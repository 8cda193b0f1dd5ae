"""How a byte stream to a broker is opened. TCP here; tests bring in-memory streams of the same shape."""

from __future__ import annotations

from typing import Protocol

import trio


class Transport(Protocol):
    """Opens streams. Raises OSError where nobody answers at the address."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream: ...


class TcpTransport:
    """Plain TCP, with trio's happy eyeballs."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return await trio.open_tcp_stream(host, port)
