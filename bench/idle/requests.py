"""Requests of Kafka's protocol counted in the bytes that pass by. Pure."""

from __future__ import annotations

import struct

import attrs

FETCH = 1
"""The API key."""

_HEAD = struct.Struct(">ih")
"""The size of what follows it, and the API key, which is the first of that."""
_SIZE = 4


@attrs.frozen
class Traffic:
    """What has passed by."""

    requests: int = 0
    fetches: int = 0
    """Those of the requests that were fetches."""
    bytes_sent: int = 0
    """By the client."""
    bytes_received: int = 0

    def __sub__(self, earlier: Traffic) -> Traffic:
        return Traffic(*(now - then for now, then in zip(attrs.astuple(self), attrs.astuple(earlier), strict=True)))


@attrs.define
class RequestReader:
    """One connection's bytes, from its first on."""

    _head: bytes = b""
    _left: int = 0
    """How much of a request, behind its head, is still to come."""

    def feed(self, data: bytes) -> list[int]:
        """The API key of each request whose head is complete with these bytes."""
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
