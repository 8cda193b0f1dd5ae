"""Messages as Arrow columns. The only file of the runtime that imports pyarrow (and numpy), and only when asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sarameya.model import NO_TIMESTAMP, Headers, TimestampType

_MOST_MILLISECONDS = (2**63 - 1) // 1000
# A column of one value is cut from one of this length that is kept; filling it takes no time, making it does.
_KEPT_ROWS = 1024


@cache
def kafka_schema() -> pa.Schema:
    """The columns of Spark's own Kafka source, `includeHeaders` on (Spark's Kafka integration guide).

    `timestamp` is microseconds, Spark's own resolution.
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
    """Messages of one partition, at least one, as an Arrow table of `kafka_schema()`.

    `kinds` may be the one that all share. A message has a null timestamp where it has none, or one that int64
    microseconds cannot hold.
    """
    count = len(offsets)
    columns = [
        _binary("key", keys),
        _binary("value", values),
        _repeated("topic", topic, count),
        _repeated("partition", partition, count),
        _numbers("offset", np.fromiter(offsets, np.int64, count)),
        _timestamps(np.fromiter(timestamps, np.int64, count)),
        _kinds(kinds, count),
        _headers(headers),
    ]
    return pa.Table.from_arrays(columns, schema=kafka_schema())


def _binary(name: str, column: Sequence[bytes | None]) -> pa.Array:
    if column[0] is None and column.count(None) == len(column):
        return _repeated(name, None, len(column))
    return pa.array(column, pa.binary())


def _numbers(name: str, column: npt.NDArray[np.int64]) -> pa.Array:
    """The column where it stands in memory."""
    return pa.Array.from_buffers(_type(name), len(column), [None, pa.py_buffer(column)])


def _timestamps(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    microseconds = milliseconds * 1000
    # Read without a sign, a negative one is larger than any.
    if milliseconds.view(np.uint64).max() <= _MOST_MILLISECONDS:
        return _numbers("timestamp", microseconds)
    null = (milliseconds == NO_TIMESTAMP) | (milliseconds < -_MOST_MILLISECONDS) | (milliseconds > _MOST_MILLISECONDS)
    return pa.array(microseconds, _type("timestamp"), mask=null)


def _kinds(kinds: TimestampType | Sequence[TimestampType], count: int) -> pa.Array:
    if not isinstance(kinds, TimestampType):
        if kinds.count(kinds[0]) < count:
            return pa.array(kinds, pa.int32())
        kinds = kinds[0]
    return _repeated("timestampType", int(kinds), count)


def _repeated(name: str, value: str | int | None, count: int) -> pa.Array:
    """A column of one value, by the name it has in the schema."""
    if count > _KEPT_ROWS:
        return _make_repeated(name, value, count)
    return _kept(name, value)[:count]


@lru_cache(maxsize=256)
def _kept(name: str, value: str | int | None) -> pa.Array:
    return _make_repeated(name, value, _KEPT_ROWS)


def _make_repeated(name: str, value: str | int | None, count: int) -> pa.Array:
    return pa.nulls(count, _type(name)) if value is None else pa.repeat(pa.scalar(value, _type(name)), count)


@cache
def _type(name: str) -> pa.DataType:
    return kafka_schema().field(name).type


def _headers(rows: Sequence[Headers]) -> pa.Array:
    if not any(rows):
        return _repeated("headers", None, len(rows))
    kind = _type("headers")
    # A null offset makes its list null: like Spark's source, a message without headers has null, not an empty list.
    ends = list(accumulate(map(len, rows), initial=0))
    starts = [start if row else None for start, row in zip(ends, rows, strict=False)]
    flat = [header for row in rows for header in row]
    structs = pa.StructArray.from_arrays(
        [pa.array([key for key, _ in flat], pa.string()), pa.array([value for _, value in flat], pa.binary())],
        fields=list(kind.value_type),
    )
    return pa.ListArray.from_arrays(pa.array([*starts, ends[-1]], pa.int32()), structs, type=kind)
