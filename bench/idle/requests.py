"""Counts requests of Kafka's protocol in a stream of bytes. Pure."""

from __future__ import annotations

import struct

import attrs

FETCH = 1
"""API key of Fetch."""

_HEAD = struct.Struct(">ih")
"""Start of a request: the size of the rest, and the API key, with which the rest begins."""
_SIZE = 4
"""Bytes of the size."""


@attrs.frozen
class Traffic:
    """Traffic of connections."""

    requests: int = 0
    fetches: int = 0
    """Number of the requests that were fetches."""
    bytes_sent: int = 0
    """Bytes that clients sent."""
    bytes_received: int = 0
    """Bytes that clients received."""

    def __sub__(self, earlier: Traffic) -> Traffic:
        return Traffic(*(now - then for now, then in zip(attrs.astuple(self), attrs.astuple(earlier), strict=True)))


@attrs.define
class RequestReader:
    """Finds the requests in the bytes that a client sends on one connection, from the first byte on."""

    _head: bytes = b""
    _left: int = 0
    """Bytes of a request after its head that have not arrived yet."""

    def feed(self, data: bytes) -> list[int]:
        """Return the API key of each request whose head is complete with these bytes."""
        keys = []
        while data:
            skipped = min(self._left, len(data))
            self._left -= skipped
            data = data[skipped:]
            missing = _HEAD.size - len(self._head)
            self._head, data = self._head + data[:missing], data[missing:]
            if len(self._head) == _HEAD.size:
                size, key = _HEAD.unpack(self._head)
                self._left = max(0, size - (_HEAD.size - _SIZE))
                self._head = b""
                keys.append(key)
        return keys
