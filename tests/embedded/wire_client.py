"""A client that sends raw requests on one connection over any stream, and returns the responses in order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
from kafka.protocol.api_header import ResponseClassRegistry

from sarameya.embedded import EmbeddedCluster


class WireClient:
    def __init__(self, stream: trio.abc.Stream, client_id: str = "wire") -> None:
        self.stream = stream
        self._client_id = client_id
        self._buffer = bytearray()
        self._sent = 0
        self._awaited: list[Any] = []

    async def send(self, request: Any) -> None:
        self._sent += 1
        request.with_header(correlation_id=self._sent, client_id=self._client_id)
        if request.expect_response():
            self._awaited.append(request.header)  # before sending: another task may receive the response
        await self.stream.send_all(bytes(request.encode(header=True, framed=True)))

    async def receive(self) -> Any:
        """Return the response to the earliest unanswered request. Raise EOFError if the broker hung up."""
        size = int.from_bytes(await self._take(4), "big")
        header = self._awaited.pop(0)
        answer = ResponseClassRegistry.get_response_class(header).decode(await self._take(size), header=True)
        assert answer.header.correlation_id == header.correlation_id
        return answer

    async def ask(self, request: Any) -> Any:
        await self.send(request)
        return await self.receive()

    async def assert_hung_up(self) -> None:
        with trio.fail_after(5):
            # The broker may close the connection with a reset, too.
            with suppress(trio.BrokenResourceError):
                assert await self.stream.receive_some() == b""

    async def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = await self.stream.receive_some()
            if not data:
                raise EOFError
            self._buffer += data
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


@asynccontextmanager
async def connected(cluster: EmbeddedCluster, broker: int = 0, *, client_id: str = "wire") -> AsyncIterator[WireClient]:
    host, port = cluster.bootstrap_servers[broker].rsplit(":", 1)
    async with await cluster.transport.connect(host, int(port)) as stream:
        yield WireClient(stream, client_id)
