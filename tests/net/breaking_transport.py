"""A transport that breaks one connection at a chosen byte of a chosen frame: it hangs, drips or is reset."""

from __future__ import annotations

import struct
from typing import Any, Literal

import trio

from sarameya.protocol.versions import Api
from tests.group.kit import Through

How = Literal["hang", "drip", "reset"]
Half = Literal["request", "answer"]


class Breaking:
    """A transport that breaks one connection, at byte `at` of the first request of `api` or of its response.

    `hang`: the other bytes never arrive. `drip`: one arrives every `pause` seconds. `reset`: the connection is lost.
    Earlier frames and all other connections are not changed.
    """

    def __init__(
        self,
        transport: Any,
        api: Api,
        how: How = "reset",
        half: Half = "answer",
        at: int = 2**31,
        *,
        pause: float = 0.9,
    ) -> None:
        self.api = api
        self.how = how
        self.half = half
        self.at = at
        self.pause = pause
        self.has_broken = False
        self.sizes: dict[Half, int] = {}
        """The sizes of the first request and response of `api`, size field included, once they were seen."""
        self.open = 0
        """The number of open connections."""
        self._transport = transport

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        stream = _Breakable(self, await self._transport.connect(host, port))
        self.open += 1
        return stream

    def must_break(self, half: Half, frame: bytes) -> bool:
        """Return whether to break this frame of the chosen API; True only once."""
        self.sizes.setdefault(half, len(frame))
        if self.has_broken or half != self.half or self.at >= len(frame):
            return False
        self.has_broken = True
        return True


class _Breakable(Through):
    def __init__(self, owner: Breaking, stream: trio.abc.Stream) -> None:
        super().__init__(stream)
        self._owner = owner
        self._outgoing, self._incoming, self._ready = bytearray(), bytearray(), bytearray()
        self._awaited: list[int] = []
        """The API keys of the requests without a response yet, in order."""
        self._rest: bytearray | None = None
        """The bytes after the break in the response, once they have arrived."""
        self._is_closed = False

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._owner.open -= 1
        await super().aclose()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._outgoing += data
        while frame := take_frame(self._outgoing):
            (key,) = struct.unpack_from(">h", frame, 4)
            self._awaited.append(key)
            if key == self._owner.api and self._owner.must_break("request", frame):
                await super().send_all(frame[: self._owner.at])
                await self._break()
                for at in range(self._owner.at, len(frame)):
                    await trio.sleep(self._owner.pause)
                    await super().send_all(frame[at : at + 1])
            else:
                await super().send_all(frame)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        while not self._ready:
            if self._rest is not None:
                await self._break()
                await trio.sleep(self._owner.pause)
                self._ready.append(self._rest.pop(0))
                if not self._rest:
                    self._rest = None
                break
            data = await super().receive_some()
            if not data:
                return b""
            self._incoming += data
            while self._rest is None and (frame := take_frame(self._incoming)):
                if self._awaited.pop(0) == self._owner.api and self._owner.must_break("answer", frame):
                    self._ready += frame[: self._owner.at]
                    self._rest = bytearray(frame[self._owner.at :])
                else:
                    self._ready += frame
        data = bytes(self._ready[:max_bytes])
        del self._ready[: len(data)]
        return data

    async def _break(self) -> None:
        match self._owner.how:
            case "hang":
                await trio.sleep_forever()
            case "reset":
                await trio.aclose_forcefully(self)
                raise trio.BrokenResourceError("reset by a test")
            case "drip":
                pass


def take_frame(buffer: bytearray) -> bytes:
    """Remove the first frame from the buffer and return it; return nothing if it is not complete."""
    if len(buffer) < 4:
        return b""
    end = 4 + struct.unpack_from(">i", buffer)[0]
    if len(buffer) < end:
        return b""
    frame = bytes(buffer[:end])
    del buffer[:end]
    return frame
