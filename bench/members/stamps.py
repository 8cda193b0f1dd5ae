"""The stamp at the start of a message's value: when it was sent, by the monotonic clock, and its number."""

from __future__ import annotations

import struct
import time

_STAMP = struct.Struct(">qq")


def stamped(sequence: int, size: int) -> bytes:
    """Return a value of `size` bytes (at least 16), with the current time."""
    return _STAMP.pack(time.monotonic_ns(), sequence).ljust(size, b".")


def lateness_and_sequence(value: bytes) -> tuple[int, int]:
    """Return how many nanoseconds ago a message was sent, and its number."""
    sent, sequence = _STAMP.unpack_from(value)
    return time.monotonic_ns() - sent, sequence
