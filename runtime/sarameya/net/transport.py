"""Byte streams to brokers: TCP. Tests use in-memory streams with the same interface.

A rule that is easily broken:

- A socket wakes its reader about once per megabyte. It never waits for more bytes than the current frame still needs:
  these bytes are certain to arrive, and others may not be. Tests:
  `tests/net/test_transport.py::test_large_response_in_pieces_wakes_its_reader_rarely`,
  `tests/protocol/test_frames.py::test_awaited_counts_the_missing_bytes_of_a_frame`.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from socket import SO_RCVLOWAT, SOL_SOCKET
from typing import Protocol

import trio

_MAX_LOW_WATER = 2**20
"""Bytes to wait for, at most, before the reader is woken.

A large response arrives in pieces of 64 KiB. A wakeup for each of them takes a twentieth of all time.
"""

_SOCKETS_ARE_FILES = os.name == "posix"
"""True if sockets can be read and written by one system call each, which costs less than trio's own methods."""


class Transport(Protocol):
    """Factory of streams to brokers."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """Connect to this address. Raises OSError or a SarameyaError if that fails."""
        ...


class TcpTransport:
    """Plain TCP, with trio's happy eyeballs."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """Connect to the first address of the host that answers. Raises OSError if none does."""
        return await trio.open_tcp_stream(host, port)


def why_not_connected(error: BaseException) -> str:
    """Return the root cause of a failed connection as text.

    trio wraps the failed attempts, one for each address, in a group, and TLS errors in a BrokenResourceError.
    """
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        return "; ".join(sorted({why_not_connected(attempt) for attempt in cause.exceptions}))
    if isinstance(error, trio.BrokenResourceError) and cause is not None:
        return why_not_connected(cause)
    # The `errno` of a TLS error is not one of the system's.
    if not isinstance(error, OSError) or isinstance(error, ssl.SSLError) or error.errno is None:
        return str(error) or type(error).__name__
    # Name resolution errors have numbers below 0.
    return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)


Receive = Callable[[memoryview, int], Awaitable[int]]
"""Receives bytes into a buffer and returns their number: 0 at the stream's end.

The second argument is the number of bytes that are certain to arrive. The caller needs all of them, so a stream may
wait for many of them before it returns.
"""


def receiver(stream: trio.abc.ReceiveStream) -> Receive:
    """Return a function that receives bytes from the stream. It raises as the stream does, and OSError."""
    return _SocketReceiver(stream.socket) if isinstance(stream, trio.SocketStream) else _StreamReceiver(stream)


SendNow = Callable[[bytes], int]
"""Sends as many bytes as possible without waiting, and returns their number.

Call it only while no other task sends on the stream. Never raises: the next regular send fails with the same error.
"""


def sender_now(stream: trio.abc.SendStream) -> SendNow:
    """Return a function that sends bytes without waiting. It always returns 0 if the stream cannot do that."""
    if not isinstance(stream, trio.SocketStream) or not _SOCKETS_ARE_FILES:
        return lambda data: 0
    descriptor = stream.socket.fileno

    def send(data: bytes) -> int:
        try:
            return os.write(descriptor(), data)
        except OSError:
            return 0

    return send


class _StreamReceiver:
    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream

    async def __call__(self, buffer: memoryview, awaited: int) -> int:
        data = await self._stream.receive_some(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _SocketReceiver:
    """Receiver that reads from the kernel into the buffer, without a copy.

    The kernel wakes the task only when enough bytes have arrived (SO_RCVLOWAT). The task waits before it reads: a read
    without data is slow, and there would be one for each small response.
    """

    def __init__(self, socket: trio.socket.SocketType) -> None:
        self._socket = socket
        self._low_water = 1

    async def __call__(self, buffer: memoryview, awaited: int) -> int:
        low_water = min(awaited, len(buffer), _MAX_LOW_WATER)
        if low_water != self._low_water:
            self._low_water = low_water
            with suppress(OSError):  # without this option the task is woken more often
                self._socket.setsockopt(SOL_SOCKET, SO_RCVLOWAT, low_water)
        if not _SOCKETS_ARE_FILES:
            return await self._socket.recv_into(buffer)
        while True:
            if (descriptor := self._socket.fileno()) < 0:
                raise trio.ClosedResourceError("the stream is closed")
            await trio.lowlevel.wait_readable(descriptor)
            try:
                return os.readv(descriptor, (buffer,))
            except BlockingIOError:
                continue  # a spurious wakeup
