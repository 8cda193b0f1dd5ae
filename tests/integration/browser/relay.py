"""Stands between a browser and a service, as a proxy does: what it lets through can be changed, and is counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import attrs
import trio

_REFUSED = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@attrs.define(eq=False)
class Relay:
    """Connections, each of which asks once."""

    target: str
    url: str = ""
    refused: frozenset[str] = frozenset()
    """Paths for which it answers 502 by itself."""
    asked: list[str] = attrs.field(factory=list)
    """The paths, in order."""
    _open: dict[trio.CancelScope, str] = attrs.field(factory=dict)

    def open_for(self, path: str) -> int:
        """Return the number of open connections that request `path`."""
        return list(self._open.values()).count(path)

    def cut(self) -> None:
        """All connections that are open."""
        for scope in self._open:
            scope.cancel()

    async def serve(self, client: trio.SocketStream) -> None:
        """A connection from the browser."""
        with trio.CancelScope() as scope:
            try:
                async with client:
                    request = await client.receive_some()
                    if not request:
                        return  # opened in case it would be needed
                    path = request.split(b" ")[1].decode()
                    self.asked.append(path)
                    if path in self.refused:
                        await client.send_all(_REFUSED)
                        return
                    self._open[scope] = path
                    await self._forward(client, request.replace(b"keep-alive", b"close"))
            except (OSError, trio.BrokenResourceError):
                pass  # either side has gone
            finally:
                self._open.pop(scope, None)

    async def _forward(self, client: trio.SocketStream, request: bytes) -> None:
        there = urlsplit(self.target)
        async with await trio.open_tcp_stream(str(there.hostname), there.port or 80) as service:
            await service.send_all(request)
            async with trio.open_nursery() as nursery:

                async def until_client_goes() -> None:
                    while await client.receive_some():
                        pass
                    nursery.cancel_scope.cancel()

                nursery.start_soon(until_client_goes)
                async for chunk in service:
                    await client.send_all(chunk)
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def relay(target: str) -> AsyncIterator[Relay]:
    """At a loopback port, before this URL."""
    made = Relay(target)
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        made.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.start_soon(trio.serve_listeners, made.serve, [listener])
        yield made
        nursery.cancel_scope.cancel()
