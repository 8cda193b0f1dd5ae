"""What the value of a message with a stamp begins with: when it was sent, by the monotonic clock, and its number."""

from __future__ import annotations

import struct
import time

_STAMP = struct.Struct(">qq")


def stamped(sequence: int, size: int) -> bytes:
    """A value of `size` bytes (at least 16), sent now."""
    return _STAMP.pack(time.monotonic_ns(), sequence).ljust(size, b".")


def lateness_and_sequence(value: bytes) -> tuple[int, int]:
    """How many nanoseconds ago it was sent, and its number."""
    sent, sequence = _STAMP.unpack_from(value)
    return time.monotonic_ns() - sent, sequence
