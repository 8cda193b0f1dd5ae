"""Events as services send them, in JSON, all of the same size; and what a table has that was made of them. Spark is
asked to parse them by `parse`; `parsed` does it without Spark, to hold that against."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = "id string, sequence bigint, sensor string, status string, temperature double, pressure double, note string"
"""An event's, in Spark's words,"""
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
"""and in Arrow's."""
LINEAGE = ("topic", "partition", "offset", "timestamp")


def event(generator: random.Random, number: int, size: int) -> bytes:
    """One event. Raises ValueError for a size that is too small for it."""
    told = {
        "id": f"{generator.getrandbits(64):016x}",
        "sequence": number,
        "sensor": f"sensor-{generator.randrange(500):04d}",
        "status": generator.choice(("ok", "ok", "late")),
        "temperature": round(generator.gauss(20, 5), 2),
        "pressure": round(generator.gauss(1013, 8), 1),
        "note": "",
    }
    text = json.dumps(told, separators=(",", ":"))
    if len(text) > size:
        raise ValueError(f"an event takes {len(text)} bytes, not {size}")
    # Half as many letters as bytes of it would have: text, not noise.
    note = generator.randbytes((size - len(text) + 1) // 2).hex()[: size - len(text)]
    return f'{text[:-2]}{note}"}}'.encode()


def parse(records: DataFrame) -> DataFrame:
    """The events' columns and where they come from, of records as Spark's Kafka source has them."""
    from pyspark.sql.functions import col, from_json

    told = from_json(col("value").cast("string"), COLUMNS).alias("event")
    return records.select(told, *LINEAGE).select("event.*", *LINEAGE)


def parsed(values: Sequence[bytes]) -> pa.Table:
    """The columns of these events."""
    return pa.Table.from_pylist([json.loads(value) for value in values], schema=SCHEMA)
