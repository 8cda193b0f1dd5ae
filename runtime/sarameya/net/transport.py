"""How a byte stream to a broker is opened. TCP here; tests bring in-memory streams of the same shape."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from socket import SO_RCVLOWAT, SOL_SOCKET
from typing import Protocol

import trio

_WORTH_A_WAKE = 2**20
"""Bytes. A broker's large answer comes in pieces of 64 KiB; waking for each takes a twentieth of all time."""


_SOCKETS_ARE_FILES = os.name == "posix"
"""So that one call of the kernel's does what takes trio, which is ready for everything, many steps."""


class Transport(Protocol):
    """Opens streams. Raises OSError where nobody answers at the address."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """A stream of bytes to this address; raises OSError, or a SarameyaError, where there is none."""
        ...


class TcpTransport:
    """Plain TCP, with trio's happy eyeballs."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """To the first of the host's addresses that answers; raises OSError where none does."""
        return await trio.open_tcp_stream(host, port)


def why_not_connected(error: BaseException) -> str:
    """What went wrong, without Python's wrapping, and trio's: it reports all attempts to connect as one group, each
    with its address, and what TLS says as the cause of a broken stream."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        return "; ".join(sorted({why_not_connected(attempt) for attempt in cause.exceptions}))
    if isinstance(error, trio.BrokenResourceError) and cause is not None:
        return why_not_connected(cause)
    # TLS has numbers of its own, which are not the system's.
    if not isinstance(error, OSError) or isinstance(error, ssl.SSLError) or error.errno is None:
        return str(error) or type(error).__name__
    # Names that are not found have numbers of their own, below 0.
    return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)


Receive = Callable[[memoryview, int], Awaitable[int]]
"""Receives bytes into a buffer: at least one, as many as it takes; none at the stream's end. The second argument is how
many are sure to come: none of them is of any use alone, and a stream may wait for many of them together."""


def receiver(stream: trio.abc.ReceiveStream) -> Receive:
    """How bytes of the stream are received. Raises as the stream does, and OSError."""
    return _SocketReceiver(stream.socket) if isinstance(stream, trio.SocketStream) else _StreamReceiver(stream)


SendNow = Callable[[bytes], int]
"""Sends as much of it as can be sent without waiting: how many bytes that is. Only while nobody else sends. Never
raises: what keeps it from sending, whoever sends next meets again."""


def sender_now(stream: trio.abc.SendStream) -> SendNow:
    """How bytes are sent at once, where the stream can do that."""
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
    """Straight from the kernel into the buffer, and not in small pieces, each of which would wake the task: the kernel
    is told how many bytes are worth it (SO_RCVLOWAT).

    It waits before it asks: a small answer's reader would ask in vain each time, which is slow to find out.
    """

    def __init__(self, socket: trio.socket.SocketType) -> None:
        self._socket = socket
        self._worth_it = 1

    async def __call__(self, buffer: memoryview, awaited: int) -> int:
        worth_it = min(awaited, len(buffer), _WORTH_A_WAKE)
        if worth_it != self._worth_it:
            self._worth_it = worth_it
            with suppress(OSError):  # where this is not to be had, it is woken more often
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
                continue  # woken for nothing
