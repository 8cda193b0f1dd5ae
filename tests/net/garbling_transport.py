"""A transport that garbles the responses of one broker."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import trio

from tests.group.kit import Through
from tests.net.breaking_transport import take_frame

Garble = Callable[[Random, bytes], bytes]
"""Returns the frame that replaces a response's frame; both include the size field."""


class Garbling:
    """A transport that applies `garble`, while `on`, to each response of `host`, or of every host if that is None."""

    def __init__(self, transport: Any, garble: Garble, host: str | None = None, seed: int = 0) -> None:
        self.on = False
        self.garbled = 0
        """The number of garbled responses."""
        self._transport = transport
        self._garble = garble
        self._host = host
        self._rng = Random(seed)

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        stream: trio.abc.Stream = await self._transport.connect(host, port)
        return stream if self._host not in (None, host) else _Garbled(self, stream)

    def answer(self, frame: bytes) -> bytes:
        if not self.on:
            return frame
        self.garbled += 1
        return self._garble(self._rng, frame)


class _Garbled(Through):
    def __init__(self, owner: Garbling, stream: trio.abc.Stream) -> None:
        super().__init__(stream)
        self._owner = owner
        self._incoming, self._ready = bytearray(), bytearray()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        while not self._ready:
            data = await super().receive_some()
            if not data:
                return b""
            self._incoming += data
            while frame := take_frame(self._incoming):
                self._ready += self._owner.answer(frame)
        data = bytes(self._ready[:max_bytes])
        del self._ready[: len(data)]
        return data
