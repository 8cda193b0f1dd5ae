"""Messages as Arrow columns. The only file of the runtime that imports pyarrow, and only when asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate

import pyarrow as pa

from sarameya.model import NO_TIMESTAMP, Headers, Message

_MOST_MILLISECONDS = (2**63 - 1) // 1000


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


def messages_to_arrow(topic: str, partition: int, messages: Sequence[Message]) -> pa.Table:
    """Messages of one partition, at least one, as an Arrow table of `kafka_schema()`.

    A message has a null timestamp where it has none, or one that int64 microseconds cannot hold.
    """
    # Messages are tuples in the order of their fields, so that zip turns rows into columns.
    _, _, offsets, timestamps, kinds, keys, values, headers, _ = zip(*messages, strict=True)
    count = len(offsets)
    columns = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.repeat(pa.scalar(topic, pa.string()), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.array(offsets, pa.int64()),
        pa.array(map(_microseconds, timestamps), pa.int64(), size=count).cast(pa.timestamp("us", tz="UTC")),
        pa.array(kinds, pa.int32()),
        _headers(headers),
    ]
    return pa.Table.from_arrays(columns, schema=kafka_schema())


def _microseconds(milliseconds: int) -> int | None:
    if milliseconds == NO_TIMESTAMP or not -_MOST_MILLISECONDS <= milliseconds <= _MOST_MILLISECONDS:
        return None
    return milliseconds * 1000


def _headers(rows: Sequence[Headers]) -> pa.Array:
    kind = kafka_schema().field("headers").type
    if not any(rows):
        return pa.nulls(len(rows), kind)
    # A null offset makes its list null: like Spark's source, a message without headers has null, not an empty list.
    ends = list(accumulate(map(len, rows), initial=0))
    starts = [start if row else None for start, row in zip(ends, rows, strict=False)]
    flat = [header for row in rows for header in row]
    structs = pa.StructArray.from_arrays(
        [pa.array([key for key, _ in flat], pa.string()), pa.array([value for _, value in flat], pa.binary())],
        fields=list(kind.value_type),
    )
    return pa.ListArray.from_arrays(pa.array([*starts, ends[-1]], pa.int32()), structs, type=kind)
