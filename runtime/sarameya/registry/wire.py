"""Prefix that a registry's serializers put before a record. Pure.

    0x00 | schema id, 4 bytes, big-endian | Protobuf only: the message's indexes | the record itself

The indexes identify a message of the schema: its index among the messages of the file, then among the messages nested
in that message, and so on. The number of indexes and each index are encoded as zigzag varints; a single 0 stands for
the file's first message.
"""

from __future__ import annotations

import attrs

HEADER = 5
"""Length in bytes of the magic byte and the id."""
_MAGIC = 0
_MAX_DEPTH = 32
_MAX_VARINT = 5


class PrefixError(ValueError):
    """The bytes do not start with a registry's prefix. The text is the reason."""


class IncompletePrefixError(PrefixError):
    """The bytes end within the prefix."""


@attrs.frozen(slots=True)
class Prefix:
    """The prefix of a record. `message` has the message's indexes; None if the format has no messages."""

    schema_id: int
    message: tuple[int, ...] | None


def read_prefix(data: bytes, *, with_message: bool) -> tuple[Prefix, int]:
    """Return the prefix of a record, and its length in bytes.

    Args:
        data: The record.
        with_message: The prefix names a message of the schema (Protobuf).

    Raises:
        IncompletePrefixError: The record ends within its prefix.
        PrefixError: The record has no prefix.
    """
    if data and data[0] != _MAGIC:
        raise PrefixError(f"it has no schema registry header: its first byte is 0x{data[0]:02x}, not 0x00")
    if len(data) < HEADER:
        raise _incomplete(data)
    schema_id = int.from_bytes(data[1:HEADER], "big", signed=True)
    if schema_id < 0:  # ids are Java's int and positive; a registry answers other ids as an unknown path
        raise PrefixError(f"its header has the schema id {schema_id}, which no schema has")
    if not with_message:
        return Prefix(schema_id, None), HEADER
    count, at = _varint(data, HEADER)
    if not 0 <= count <= _MAX_DEPTH:
        raise PrefixError(f"its header has a list of {count} message indexes")
    message = []
    for _ in range(count):
        index, at = _varint(data, at)
        if index < 0:
            raise PrefixError(f"its header has a message index of {index}")
        message.append(index)
    return Prefix(schema_id, tuple(message) or (0,)), at


def header(schema_id: int) -> bytes:
    """Return the header of a record: a zero byte, and the id of its schema in four bytes."""
    return b"\x00" + schema_id.to_bytes(4, "big")


def message_indexes(path: tuple[int, ...]) -> bytes:
    """Return the indexes that follow the header of a Protobuf record."""
    return b"\x00" if path == (0,) else b"".join(map(_zigzag, (len(path), *path)))


def _zigzag(number: int) -> bytes:
    left, written = number << 1, bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(_MAX_VARINT):
        if at + n >= len(data):
            raise _incomplete(data)
        value |= (data[at + n] & 0x7F) << (7 * n)
        if data[at + n] < 0x80:
            return (value >> 1) ^ -(value & 1), at + n + 1
    raise PrefixError("its header has a message index without end")


def _incomplete(data: bytes) -> IncompletePrefixError:
    return IncompletePrefixError(f"it ends within its schema registry header, after {len(data)} bytes")
