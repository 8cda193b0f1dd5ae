"""Transports between clients and brokers: TCP, TLS, or streams in memory. Trio.

A network opens a listener for each broker. Clients use it as their transport: `connect(host, port)`. With streams in
memory, all timing depends on trio's clock only, so that tests can use a virtual clock.
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
        """Open a stream to the broker at this address.

        Raises:
            OSError: No broker listens there.
        """

    async def listen(self, node_id: int, port: int) -> tuple[trio.abc.Listener[trio.abc.Stream], str, int]:
        """Open a listener for a broker, and return it with its host and port.

        Args:
            node_id: The broker.
            port: The port to listen on; 0 for any free one.

        Raises:
            OSError: The port is in use.
        """

    def client_host(self, stream: trio.abc.Stream) -> str:
        """Return the client address of an accepted stream, in the format of DescribeGroups."""


class TcpNetwork:
    """TCP on one interface. Brokers listen on `host` and advertise it to clients."""

    def __init__(self, host: str) -> None:
        self._host = host

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return await trio.open_tcp_stream(host, port)

    async def listen(self, node_id: int, port: int) -> tuple[trio.abc.Listener[trio.abc.Stream], str, int]:
        listeners = await trio.open_tcp_listeners(port, host=self._host)
        # A host name may have several addresses, each with its own listener and port. A broker advertises one port.
        for other in listeners[1:]:
            await other.aclose()
        return listeners[0], self._host, listeners[0].socket.getsockname()[1]

    def client_host(self, stream: trio.abc.Stream) -> str:
        assert isinstance(stream, trio.SocketStream)
        try:
            return f"/{stream.socket.getpeername()[0]}"
        except OSError:  # disconnected already
            return "/?"


class MemoryNetwork:
    """Streams in memory. Broker n has the host name `broker-n` and accepts any port."""

    def __init__(self) -> None:
        self._listeners: dict[str, _MemoryListener] = {}

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        listener = self._listeners.get(host)
        if listener is None or listener.closed:
            raise ConnectionRefusedError(f"no broker listens at {host}:{port}")
        client_end, broker_end = trio.testing.memory_stream_pair()
        listener.incoming.send_nowait(broker_end)
        return client_end

    async def listen(self, node_id: int, port: int) -> tuple[trio.abc.Listener[trio.abc.Stream], str, int]:
        await trio.lowlevel.checkpoint()
        host = f"broker-{node_id}"
        existing = self._listeners.get(host)
        if existing is not None and not existing.closed:
            raise OSError(errno.EADDRINUSE, f"{host} is in use")
        self._listeners[host] = _MemoryListener()
        return self._listeners[host], host, port or 9092

    def client_host(self, stream: trio.abc.Stream) -> str:
        return "/memory"


class TlsNetwork:
    """Another network whose brokers speak TLS. Clients wrap the streams of `connect` themselves."""

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
        # Clients that have connected but were not accepted must not wait forever, even if this call is cancelled.
        with self._accepted, suppress(trio.EndOfChannel):
            while True:
                await trio.aclose_forcefully(self._accepted.receive_nowait())
        await trio.lowlevel.checkpoint()
