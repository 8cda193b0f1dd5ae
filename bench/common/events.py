"""Events in JSON as services send them, all of the same size, and their columns in a table.

`parse` gets the columns with Spark. `event_table` gets them without Spark, to check the result.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = "id string, sequence bigint, sensor string, status string, temperature double, pressure double, note string"
"""Columns of an event, as Spark's DDL."""
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("sequence", pa.int64()),
        ("sensor", pa.string()),
        ("status", pa.string()),
        ("temperature", pa.float64()),
        ("pressure", pa.float64()),
        ("note", pa.string()),
    ]
)
"""Columns of an event, as Arrow's schema."""
LINEAGE = ("topic", "partition", "offset", "timestamp")
"""Columns that identify the record of an event."""


def event(generator: random.Random, number: int, size: int) -> bytes:
    """Return one event.

    Args:
        generator: Source of its random values.
        number: Its sequence number.
        size: Its size in bytes.

    Raises:
        ValueError: The size is too small for an event.
    """
    fields = {
        "id": f"{generator.getrandbits(64):016x}",
        "sequence": number,
        "sensor": f"sensor-{generator.randrange(500):04d}",
        "status": generator.choice(("ok", "ok", "late")),
        "temperature": round(generator.gauss(20, 5), 2),
        "pressure": round(generator.gauss(1013, 8), 1),
        "note": "",
    }
    text = json.dumps(fields, separators=(",", ":"))
    if len(text) > size:
        raise ValueError(f"an event takes {len(text)} bytes, not {size}")
    # Hexadecimal digits compress to half, as text does. Random bytes would not compress.
    note = generator.randbytes((size - len(text) + 1) // 2).hex()[: size - len(text)]
    return f'{text[:-2]}{note}"}}'.encode()


def parse(records: DataFrame) -> DataFrame:
    """Return the columns of events, and LINEAGE. `records` has the columns of Spark's Kafka source."""
    from pyspark.sql.functions import col, from_json

    event_column = from_json(col("value").cast("string"), COLUMNS).alias("event")
    return records.select(event_column, *LINEAGE).select("event.*", *LINEAGE)


def event_table(values: Sequence[bytes]) -> pa.Table:
    """Return a table of the columns of these events."""
    return pa.Table.from_pylist([json.loads(value) for value in values], schema=SCHEMA)
