"""Prefixes that a registry's serializers put before records. Read from Arrow columns, with no object per record. Pure.

    0x00 | schema id, 4 bytes, big-endian | Protobuf only: the message's indexes | the record itself

The indexes identify a message of the schema: its index among the messages of the file, then among the messages nested
in that message, and so on. The number of indexes and each index are encoded as zigzag varints; a single 0 stands for
the file's first message. A batch has few different prefixes, and each is parsed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    import pyarrow as pa

HEADER = 5
"""Length in bytes of the magic byte and the id."""
_MAGIC = 0
_MAX_DEPTH = 32
_MAX_VARINT = 5


class PrefixError(ValueError):
    """The bytes do not start with a registry's prefix. The text is the reason."""


@attrs.frozen(slots=True)
class Prefix:
    """The prefix of a record. `message` has the message's indexes; None if the format has no messages."""

    schema_id: int
    message: tuple[int, ...] | None


class _IncompletePrefixError(Exception):
    """The bytes end within the prefix."""


def _read(data: bytes, with_message: bool) -> Prefix:
    if data and data[0] != _MAGIC:
        raise PrefixError(f"it has no schema registry header: its first byte is 0x{data[0]:02x}, not 0x00")
    if len(data) < HEADER:
        raise _IncompletePrefixError
    schema_id = int.from_bytes(data[1:HEADER], "big", signed=True)
    if schema_id < 0:  # ids are Java's int and positive; a registry answers other ids as an unknown path
        raise PrefixError(f"its header has the schema id {schema_id}, which no schema has")
    if not with_message:
        return Prefix(schema_id, None)
    count, at = _varint(data, HEADER)
    if not 0 <= count <= _MAX_DEPTH:
        raise PrefixError(f"its header has a list of {count} message indexes")
    message = []
    for _ in range(count):
        index, at = _varint(data, at)
        if index < 0:
            raise PrefixError(f"its header has a message index of {index}")
        message.append(index)
    return Prefix(schema_id, tuple(message) or (0,))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(_MAX_VARINT):
        if at + n >= len(data):
            raise _IncompletePrefixError
        value |= (data[at + n] & 0x7F) << (7 * n)
        if data[at + n] < 0x80:
            return (value >> 1) ^ -(value & 1), at + n + 1
    raise PrefixError("its header has a message index without end")


@attrs.frozen(slots=True, eq=False)
class PrefixSurvey:
    """Prefixes of a column's records.

    Attributes:
        codes: Prefix bytes of each record; null for a null record.
        prefixes: Prefixes that can be read, by their bytes.
        problems: Reasons why other prefixes cannot be read, by their bytes.
    """

    codes: pa.DictionaryArray
    prefixes: Mapping[bytes, Prefix]
    problems: Mapping[bytes, str]

    @property
    def schema_ids(self) -> set[int]:
        return {prefix.schema_id for prefix in self.prefixes.values()}

    def rows_of(self, problems: Mapping[bytes, str]) -> list[tuple[int, str]]:
        """Return the index and the problem of each row whose prefix has one of these problems."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not problems:
            return []
        known: list[bytes] = self.codes.dictionary.to_pylist()
        bad = pa.array([n for n, code in enumerate(known) if code in problems], pa.int32())
        rows = pc.indices_nonzero(pc.is_in(self.codes.indices, value_set=bad))
        return [(row, problems[known[self.codes.indices[row].as_py()]]) for row in rows.to_pylist()]

    def prefix_of(self, offset: int, offsets: pa.ChunkedArray) -> Prefix:
        """Return the prefix of the record at an offset. The prefix must be a readable one."""
        import pyarrow.compute as pc

        return self.prefixes[self.codes[pc.index(offsets, offset).as_py()].as_py()]


def survey(values: pa.ChunkedArray, *, with_message: bool) -> PrefixSurvey:
    """Return the prefixes of a binary column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = HEADER + with_message
    codes = pc.binary_slice(values, 0, size)
    prefixes: dict[bytes, Prefix] = {}
    problems: dict[bytes, str] = {}
    unread = _distinct(codes)
    while unread:
        longer = []
        for code in unread:
            try:
                prefixes[code] = _read(code, with_message)
            except PrefixError as error:
                problems[code] = str(error)
            except _IncompletePrefixError:
                if len(code) < size:
                    problems[code] = f"it ends within its schema registry header, after {len(code)} bytes"
                else:
                    longer.append(code)
        if longer:
            size += 1  # byte by byte, to read no more than the prefix: the bytes after it differ in each record
            more = pc.is_in(codes, value_set=pa.array(longer, codes.type))
            codes = pc.if_else(more, pc.binary_slice(values, 0, size), codes)
        unread = _distinct(codes.filter(more)) if longer else []
    return PrefixSurvey(_encoded(codes), prefixes, problems)


def _distinct(codes: Any) -> list[bytes]:
    return [code for code in codes.unique().to_pylist() if code is not None]


def _encoded(codes: pa.ChunkedArray) -> pa.DictionaryArray:
    import pyarrow as pa

    combined = codes.combine_chunks()
    # combine_chunks returns one array; older pyarrow versions return a chunked array with a single chunk.
    array = combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
    return array.dictionary_encode()
