"""Message batches as Arrow columns. The only file of the runtime that imports pyarrow, and only when asked."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from sarameya.model import NO_TIMESTAMP, MessageBatch


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


def batch_to_arrow(batch: MessageBatch) -> pa.Table:
    """One batch as an Arrow table of `kafka_schema()`; a message without a timestamp gets null."""
    messages = batch.messages
    count = len(messages)
    columns = [
        pa.array([m.key for m in messages], pa.binary()),
        pa.array([m.value for m in messages], pa.binary()),
        pa.repeat(pa.scalar(batch.topic, pa.string()), count),
        pa.repeat(pa.scalar(batch.partition, pa.int32()), count),
        pa.array([m.offset for m in messages], pa.int64()),
        pa.array([None if m.timestamp == NO_TIMESTAMP else m.timestamp * 1000 for m in messages], pa.int64()).cast(
            pa.timestamp("us", tz="UTC")
        ),
        pa.array([int(m.timestamp_type) for m in messages], pa.int32()),
        pa.array(
            [[{"key": k, "value": v} for k, v in m.headers] or None for m in messages],
            kafka_schema().field("headers").type,
        ),
    ]
    return pa.Table.from_arrays(columns, schema=kafka_schema())
