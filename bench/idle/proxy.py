"""A proxy between clients and a broker that counts traffic. It delays a response by a fraction of a millisecond."""

from __future__ import annotations

from functools import partial

import attrs
import trio

from bench.idle.requests import FETCH, RequestReader, Traffic

HOST = "127.0.0.1"
_BLOCK = 2**16


class Proxy:
    """Forwards connections from `port` to the broker's port `target`, and counts requests and bytes."""

    def __init__(self, port: int, target: int) -> None:
        self.traffic = Traffic()
        """Traffic so far."""
        self._port = port
        self._target = target

    async def serve(self, *, task_status: trio.TaskStatus[object] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. A connection that breaks on one side is closed on the other."""
        serving = partial(trio.serve_tcp, self._connect, self._port, host=HOST)
        await serving(task_status=task_status)

    async def _connect(self, client: trio.SocketStream) -> None:
        async with client, await trio.open_tcp_stream(HOST, self._target) as broker, trio.open_nursery() as nursery:
            nursery.start_soon(self._requests, client, broker, nursery.cancel_scope)
            nursery.start_soon(self._responses, broker, client, nursery.cancel_scope)

    async def _requests(self, client: trio.SocketStream, broker: trio.SocketStream, scope: trio.CancelScope) -> None:
        reader = RequestReader()
        try:
            while data := await client.receive_some(_BLOCK):
                keys = reader.feed(data)
                self.traffic = attrs.evolve(
                    self.traffic,
                    requests=self.traffic.requests + len(keys),
                    fetches=self.traffic.fetches + keys.count(FETCH),
                    bytes_sent=self.traffic.bytes_sent + len(data),
                )
                await broker.send_all(data)
        except trio.BrokenResourceError:
            pass
        scope.cancel()

    async def _responses(self, broker: trio.SocketStream, client: trio.SocketStream, scope: trio.CancelScope) -> None:
        try:
            while data := await broker.receive_some(_BLOCK):
                received = self.traffic.bytes_received + len(data)
                self.traffic = attrs.evolve(self.traffic, bytes_received=received)
                await client.send_all(data)
        except trio.BrokenResourceError:
            pass
        scope.cancel()
