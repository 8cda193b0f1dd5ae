"""How brokers are reached: over TCP, or over streams in memory. Trio.

A network opens a listener for each broker and, to clients, is the transport: `connect(host, port)`. In memory
no time passes but by trio's clock, so that a virtual one rules everything.
"""

from __future__ import annotations

import errno
import math
import ssl
from contextlib import suppress
from typing import Protocol

import trio
import trio.testing


class Network(Protocol):
    """Connects clients to brokers."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """A stream to the broker at the address. Raises OSError where none listens."""

    async def listen(self, node_id: int, port: int) -> tuple[trio.abc.Listener[trio.abc.Stream], str, int]:
        """A listener for the broker, and its address. `port` 0 takes a free one. Raises OSError if it is taken."""

    def client_host(self, stream: trio.abc.Stream) -> str:
        """Where an accepted stream comes from, as DescribeGroups shows it."""


class TcpNetwork:
    """TCP on one interface; `host` is both what is listened on and what clients are told."""

    def __init__(self, host: str) -> None:
        self._host = host

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return await trio.open_tcp_stream(host, port)

    async def listen(self, node_id: int, port: int) -> tuple[trio.abc.Listener[trio.abc.Stream], str, int]:
        listeners = await trio.open_tcp_listeners(port, host=self._host)
        # A name may stand for several addresses, each with a listener; clients are told one port.
        for other in listeners[1:]:
            await other.aclose()
        return listeners[0], self._host, listeners[0].socket.getsockname()[1]

    def client_host(self, stream: trio.abc.Stream) -> str:
        assert isinstance(stream, trio.SocketStream)
        try:
            return f"/{stream.socket.getpeername()[0]}"
        except OSError:  # gone already
            return "/?"


class MemoryNetwork:
    """Streams in memory. Broker n has the address `broker-n`, whatever the port."""

    def __init__(self) -> None:
        self._listeners: dict[str, _MemoryListener] = {}

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        listener = self._listeners.get(host)
        if listener is None or listener.closed:
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        ours, theirs = trio.testing.memory_stream_pair()
        listener.incoming.send_nowait(theirs)
        return ours

    async def listen(self, node_id: int, port: int) -> tuple[trio.abc.Listener[trio.abc.Stream], str, int]:
        await trio.lowlevel.checkpoint()
        host = f"broker-{node_id}"
        taken = self._listeners.get(host)
        if taken is not None and not taken.closed:
            raise OSError(errno.EADDRINUSE, f"{host} is in use")
        self._listeners[host] = _MemoryListener()
        return self._listeners[host], host, port or 9092

    def client_host(self, stream: trio.abc.Stream) -> str:
        return "/memory"


class TlsNetwork:
    """Another network, whose brokers speak TLS; clients put it over `connect`'s streams themselves."""

    def __init__(self, network: Network, context: ssl.SSLContext) -> None:
        self._network = network
        self._context = context

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return await self._network.connect(host, port)

    async def listen(self, node_id: int, port: int) -> tuple[trio.abc.Listener[trio.abc.Stream], str, int]:
        listener, host, bound = await self._network.listen(node_id, port)
        return trio.SSLListener(listener, self._context, https_compatible=True), host, bound

    def client_host(self, stream: trio.abc.Stream) -> str:
        assert isinstance(stream, trio.SSLStream)
        return self._network.client_host(stream.transport_stream)


class _MemoryListener(trio.abc.Listener[trio.abc.Stream]):
    def __init__(self) -> None:
        self.closed = False
        self.incoming, self._accepted = trio.open_memory_channel[trio.abc.Stream](math.inf)

    async def accept(self) -> trio.abc.Stream:
        return await self._accepted.receive()

    async def aclose(self) -> None:
        self.closed = True
        self.incoming.close()
        # Who connected and was not accepted must not wait for ever, even when we are cancelled.
        with self._accepted, suppress(trio.EndOfChannel):
            while True:
                await trio.aclose_forcefully(self._accepted.receive_nowait())
        await trio.lowlevel.checkpoint()
