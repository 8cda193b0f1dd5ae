"""Messages as Arrow columns. Only this module and `protocol.records.record_walk` import pyarrow and numpy.

Columns are created from Python objects or, by `record_walk`, from buffers. A column from buffers is also a sequence of
Python objects, which are created on each access.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sarameya.model import NO_TIMESTAMP, Headers, TimestampType

_MOST_MILLISECONDS = (2**63 - 1) // 1000
_MOST_BYTES = 2**31 - 1
# A column that repeats one value is a slice of a cached column of this length. Creating a column costs time, whatever
# its length.
_CACHED_ROWS = 4096

_T = TypeVar("_T")
_Ints = npt.NDArray[np.int64]
_Buffer = npt.NDArray[np.uint8] | bytes


@cache
def kafka_schema() -> pa.Schema:
    """Return the columns of Spark's own Kafka source with `includeHeaders` (Spark's Kafka integration guide).

    `timestamp` is in microseconds, Spark's own resolution.
    """
    return pa.schema(
        [
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("topic", pa.string(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("us", tz="UTC")),
            pa.field("timestampType", pa.int32(), nullable=False),
            pa.field(
                "headers",
                pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])),
            ),
        ]
    )


def columns_to_arrow(
    topic: str,
    partition: int,
    offsets: Sequence[int],
    timestamps: Sequence[int],
    kinds: TimestampType | Sequence[TimestampType],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Headers],
) -> pa.Table:
    """Convert messages of one partition, at least one, to an Arrow table of `kafka_schema()`.

    Args:
        topic: Topic of all messages.
        partition: Partition of all messages.
        offsets: Offset of each message.
        timestamps: Timestamp of each message in milliseconds. A message without a timestamp, or with a timestamp that
            does not fit in int64 microseconds, gets null.
        kinds: Timestamp type of each message, or one type for all.
        keys: Key of each message.
        values: Value of each message.
        headers: Headers of each message.
    """
    count = len(offsets)
    columns = [
        _binary("key", keys),
        _binary("value", values),
        _repeated("topic", topic, count),
        _repeated("partition", partition, count),
        _numbers("offset", _int64(offsets)),
        _timestamps(_int64(timestamps)),
        _kinds(kinds, count),
        _headers(headers),
    ]
    return pa.Table.from_arrays(columns, schema=kafka_schema())


class ArrowColumn(Sequence[_T]):
    """Arrow array as a sequence of Python objects, which are created on each access."""

    __slots__ = ("array",)

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> ArrowColumn[_T]: ...
    def __getitem__(self, index: int | slice) -> _T | ArrowColumn[_T]:
        if isinstance(index, slice):
            return type(self)(self.array[index])
        value: _T = self._values(self.array[index : index + 1 or None])[0]
        return value

    def __iter__(self) -> Iterator[_T]:
        return iter(self._values(self.array))

    @staticmethod
    def _values(array: pa.Array) -> list[Any]:
        values: list[Any] = array.to_pylist()
        return values


class _HeadersColumn(ArrowColumn[Headers]):
    """Column of headers; null for a message without headers, as in `kafka_schema`."""

    __slots__ = ()

    @staticmethod
    def _values(array: pa.Array) -> list[Headers]:
        if array.null_count == len(array):
            return [()] * len(array)
        return [tuple((header["key"], header["value"]) for header in row or ()) for row in array.to_pylist()]


def int_column(values: _Ints) -> ArrowColumn[int]:
    """Wrap the array without a copy."""
    return ArrowColumn(_numbers("offset", values))


def binary_column(name: str, lengths: _Ints, data: _Buffer) -> ArrowColumn[bytes | None]:
    """Make a column of keys or values (`name`, as in the schema).

    Args:
        name: Name of the column.
        lengths: Length of each value, negative for null.
        data: Bytes of all values.

    Raises:
        ValueError: The bytes exceed the capacity of Arrow's binary type.
    """
    if lengths.max() < 0:
        return ArrowColumn(_repeated(name, None, len(lengths)))
    return ArrowColumn(_from_lengths(pa.binary(), lengths, data))


def headers_column(
    counts: _Ints, key_lengths: _Ints, keys: _Buffer, value_lengths: _Ints, values: _Buffer
) -> ArrowColumn[Headers]:
    """Make a column of headers.

    Args:
        counts: Number of headers of each message.
        key_lengths: Length of each key.
        keys: Bytes of all keys.
        value_lengths: Length of each value, negative for null.
        values: Bytes of all values.

    Raises:
        ValueError: A count is negative, or a key is null or not UTF-8.
    """
    if not counts.any():
        return _HeadersColumn(_repeated("headers", None, len(counts)))
    if counts.min() < 0 or key_lengths.min() < 0:
        raise ValueError("a count of headers is negative, or a header's key is null")
    kind = _type("headers")
    flat = [_from_lengths(pa.string(), key_lengths, keys), _from_lengths(pa.binary(), value_lengths, values)]
    flat[0].validate(full=True)
    structs = pa.StructArray.from_arrays(flat, fields=list(kind.value_type))
    buffers = [_bitmap(counts == 0), pa.py_buffer(_ends(counts))]
    return _HeadersColumn(pa.Array.from_buffers(kind, len(counts), buffers, children=[structs]))


def _binary(name: str, column: Sequence[bytes | None]) -> pa.Array:
    if isinstance(column, ArrowColumn):
        return column.array
    return binary_column(name, _lengths(column), b"".join(filter(None, column))).array


def _headers(rows: Sequence[Headers]) -> pa.Array:
    if isinstance(rows, ArrowColumn):
        return rows.array
    keys = [key.encode() for row in rows for key, _ in row]
    values = [value for row in rows for _, value in row]
    data = b"".join(keys), b"".join(filter(None, values))
    return headers_column(_lengths(rows), _lengths(keys), data[0], _lengths(values), data[1]).array


def _lengths(column: Sequence[Sequence[Any] | None]) -> _Ints:
    return np.array([-1 if value is None else len(value) for value in column], np.int64)


def _int64(column: Sequence[int]) -> _Ints:
    if isinstance(column, ArrowColumn):
        # Arrow's own to_numpy imports pandas, which takes half a second.
        array = column.array
        values: _Ints = np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8)
        return values
    return np.fromiter(column, np.int64, len(column))


def _timestamps(milliseconds: _Ints) -> pa.Array:
    microseconds = milliseconds * 1000
    # Viewed as unsigned, a negative number is larger than any allowed number.
    if milliseconds.view(np.uint64).max() <= _MOST_MILLISECONDS:
        return _numbers("timestamp", microseconds)
    null = (milliseconds == NO_TIMESTAMP) | (milliseconds < -_MOST_MILLISECONDS) | (milliseconds > _MOST_MILLISECONDS)
    return _numbers("timestamp", microseconds, _bitmap(null))


def _kinds(kinds: TimestampType | Sequence[TimestampType], count: int) -> pa.Array:
    if not isinstance(kinds, TimestampType):
        if kinds.count(kinds[0]) < count:
            return _numbers("timestampType", np.array(kinds, np.int32))
        kinds = kinds[0]
    return _repeated("timestampType", int(kinds), count)


def _repeated(name: str, value: str | int | None, count: int) -> pa.Array:
    """Return a column that repeats one value.

    Args:
        name: Name of the column in the schema.
        value: Value of every row.
        count: Number of rows.
    """
    if count > _CACHED_ROWS:
        return _make_repeated(name, value, count)
    return _cached(name, value)[:count]


@lru_cache(maxsize=256)
def _cached(name: str, value: str | int | None) -> pa.Array:
    return _make_repeated(name, value, _CACHED_ROWS)


def _make_repeated(name: str, value: str | int | None, count: int) -> pa.Array:
    if value is None:
        return pa.nulls(count, _type(name))
    if isinstance(value, int):
        return _numbers(name, np.full(count, value, np.int32))
    text = value.encode()
    return _from_lengths(pa.string(), np.full(count, len(text), np.int64), text * count)


def _numbers(name: str, column: npt.NDArray[Any], valid: pa.Buffer | None = None) -> pa.Array:
    """Wrap the column without a copy."""
    return pa.Array.from_buffers(_type(name), len(column), [valid, pa.py_buffer(column)])


def _from_lengths(kind: pa.DataType, lengths: _Ints, data: _Buffer) -> pa.Array:
    null = lengths < 0
    if not null.any():
        return pa.Array.from_buffers(kind, len(lengths), [None, pa.py_buffer(_ends(lengths)), pa.py_buffer(data)])
    ends = _ends(np.where(null, 0, lengths))
    return pa.Array.from_buffers(kind, len(lengths), [_bitmap(null), pa.py_buffer(ends), pa.py_buffer(data)])


def _ends(lengths: _Ints) -> npt.NDArray[np.int32]:
    """Return Arrow's offsets: the start of each value, and the end of the last."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    lengths.cumsum(out=ends[1:])
    if ends[-1] > _MOST_BYTES:
        raise ValueError(f"{ends[-1]} bytes do not fit into one column")
    return ends.astype(np.int32)


def _bitmap(null: npt.NDArray[np.bool_]) -> pa.Buffer:
    """Return Arrow's validity bitmap."""
    return pa.py_buffer(np.packbits(~null, bitorder="little"))


@cache
def _type(name: str) -> pa.DataType:
    return kafka_schema().field(name).type
