"""Tagged fields of request and response headers (KIP-482). Kafka defines none for headers yet. Pure."""

from __future__ import annotations

NO_TAGS = b"\0"
"""Encoding of no tagged fields."""


def skip_tags(frame: bytes | memoryview, at: int) -> int:
    """Return the position after the tagged fields that start at `at`. There is usually none, which takes one byte.

    Does not check that the last field ends inside the frame.

    Raises:
        ValueError: The bytes are not tagged fields.
        IndexError: The frame is too short.
    """
    count, at = unsigned_varint(frame, at)
    for _ in range(count):
        _, at = unsigned_varint(frame, at)
        size, at = unsigned_varint(frame, at)
        at += size
    return at


def unsigned_varint(frame: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number at `at` and the position after it.

    Raises:
        ValueError: The number has more than five bytes.
        IndexError: The frame is too short.
    """
    value = 0
    for shift in range(0, 35, 7):
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a varint of more than five bytes")


def as_unsigned_varint(number: int) -> bytes:
    """Encode a number, which must not be negative."""
    if number < 0x80:
        return bytes((number,))
    return bytes((number & 0x7F | 0x80,)) + as_unsigned_varint(number >> 7)
