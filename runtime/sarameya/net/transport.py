"""Byte streams to brokers: TCP. Tests use in-memory streams with the same interface.

A rule that is easily broken:

- A socket wakes its reader once a megabyte, and never waits for more bytes than the frame in progress lacks: the
  awaited bytes must be sure to come. Tests:
  `tests/net/test_transport.py::test_large_response_in_pieces_wakes_its_reader_rarely`,
  `tests/protocol/test_frames.py::test_what_is_awaited_is_what_the_frame_that_has_begun_lacks`.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from socket import SO_RCVLOWAT, SOL_SOCKET
from typing import Protocol

import trio

_WORTH_A_WAKE = 2**20
"""Bytes. A large response comes in pieces of 64 KiB, and a wakeup for each takes a twentieth of all time."""


_SOCKETS_ARE_FILES = os.name == "posix"
"""True if one system call does the work of many steps in trio, which is prepared for everything."""


class Transport(Protocol):
    """Opener of streams."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """Connect to this address. Raises OSError, or a SarameyaError, if that fails."""
        ...


class TcpTransport:
    """Plain TCP, with trio's happy eyeballs."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """Connect to the first address of the host that answers. Raises OSError if none does."""
        return await trio.open_tcp_stream(host, port)


def why_not_connected(error: BaseException) -> str:
    """Return the cause without the wrapping of Python and trio.

    trio reports all attempts to connect as one group, each with its address, and TLS errors as the cause of a broken
    stream.
    """
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        return "; ".join(sorted({why_not_connected(attempt) for attempt in cause.exceptions}))
    if isinstance(error, trio.BrokenResourceError) and cause is not None:
        return why_not_connected(cause)
    # TLS errors have numbers of their own, which are not the system's.
    if not isinstance(error, OSError) or isinstance(error, ssl.SSLError) or error.errno is None:
        return str(error) or type(error).__name__
    # Name resolution errors have numbers of their own, below 0.
    return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)


Receive = Callable[[memoryview, int], Awaitable[int]]
"""Receives bytes into a buffer: at least one, or none at the stream's end.

The second argument is the number of bytes that are certain to come. None of them is of use alone, so a stream may wait
for many of them together.
"""


def receiver(stream: trio.abc.ReceiveStream) -> Receive:
    """Return the function that receives bytes of the stream. It raises as the stream does, and OSError."""
    return _SocketReceiver(stream.socket) if isinstance(stream, trio.SocketStream) else _StreamReceiver(stream)


SendNow = Callable[[bytes], int]
"""Sends as many bytes as possible without waiting, and returns their number.

Only for times when nobody else sends. Never raises: the next regular send meets the same error.
"""


def sender_now(stream: trio.abc.SendStream) -> SendNow:
    """Return the function that sends bytes at once; it sends none if the stream cannot do that."""
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
    """Receiver straight from the kernel into the buffer.

    Small pieces would each wake the task, so the kernel gets the number of bytes that are worth it (SO_RCVLOWAT). It
    waits before it reads: a read without data is slow, and would happen for each small response.
    """

    def __init__(self, socket: trio.socket.SocketType) -> None:
        self._socket = socket
        self._worth_it = 1

    async def __call__(self, buffer: memoryview, awaited: int) -> int:
        worth_it = min(awaited, len(buffer), _WORTH_A_WAKE)
        if worth_it != self._worth_it:
            self._worth_it = worth_it
            with suppress(OSError):  # without this option the task is woken more often
                self._socket.setsockopt(SOL_SOCKET, SO_RCVLOWAT, worth_it)
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
