"""A proxy between a browser and a service. It records requests, and can refuse them or close connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import attrs
import trio

_REFUSED = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@attrs.define(eq=False)
class Relay:
    """A proxy with one request for each connection."""

    target: str
    """URL of the service."""
    url: str = ""
    """URL of the proxy."""
    refused: frozenset[str] = frozenset()
    """Paths that the proxy itself answers with 502."""
    requested: list[str] = attrs.field(factory=list)
    """Paths of all requests, in order."""
    _open: dict[trio.CancelScope, str] = attrs.field(factory=dict)
    """Scope of each forwarded connection -> its path."""

    def open_for(self, path: str) -> int:
        """Return the number of open connections that request `path`."""
        return list(self._open.values()).count(path)

    def cut(self) -> None:
        """Close all connections that are open."""
        for scope in self._open:
            scope.cancel()

    async def serve(self, client: trio.SocketStream) -> None:
        """Serve one connection of the browser."""
        with trio.CancelScope() as scope:
            try:
                async with client:
                    request = await client.receive_some()
                    if not request:
                        return  # the browser had opened the connection in advance
                    path = request.split(b" ")[1].decode()
                    self.requested.append(path)
                    if path in self.refused:
                        await client.send_all(_REFUSED)
                        return
                    self._open[scope] = path
                    await self._forward(client, request.replace(b"keep-alive", b"close"))
            except (OSError, trio.BrokenResourceError):
                pass  # the browser or the service has closed the connection
            finally:
                self._open.pop(scope, None)

    async def _forward(self, client: trio.SocketStream, request: bytes) -> None:
        address = urlsplit(self.target)
        async with await trio.open_tcp_stream(str(address.hostname), address.port or 80) as service:
            await service.send_all(request)
            async with trio.open_nursery() as nursery:

                async def stop_when_client_closes() -> None:
                    while await client.receive_some():
                        pass
                    nursery.cancel_scope.cancel()

                nursery.start_soon(stop_when_client_closes)
                async for chunk in service:
                    await client.send_all(chunk)
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def relay(target: str) -> AsyncIterator[Relay]:
    """Run a proxy for the URL `target` at a free loopback port."""
    proxy = Relay(target)
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        proxy.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.start_soon(trio.serve_listeners, proxy.serve, [listener])
        yield proxy
        nursery.cancel_scope.cancel()
