"""Tagged fields of headers, on either side of the wire (KIP-482). Nobody has defined any for a header yet. Pure."""

from __future__ import annotations

NO_TAGS = b"\0"
"""How none are written."""


def behind_tags(frame: bytes | memoryview, at: int) -> int:
    """Where the tagged fields end that begin here: as a rule one byte on.

    Raises ValueError or IndexError for bytes that are none; does not look whether the last one ends in the frame.
    """
    count, at = unsigned_varint(frame, at)
    for _ in range(count):
        _, at = unsigned_varint(frame, at)
        size, at = unsigned_varint(frame, at)
        at += size
    return at


def unsigned_varint(frame: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number that begins here and where it ends. Raises ValueError beyond five bytes, IndexError at the end."""
    value = 0
    for shift in range(0, 35, 7):
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a varint of more than five bytes")


def as_unsigned_varint(number: int) -> bytes:
    """How a number of at least 0 is written."""
    if number < 0x80:
        return bytes((number,))
    return bytes((number & 0x7F | 0x80,)) + as_unsigned_varint(number >> 7)
