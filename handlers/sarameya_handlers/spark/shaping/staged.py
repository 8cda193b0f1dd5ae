"""Staged records as Spark reads them, and as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sarameya_handlers.spark.errors import LandingError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

KAFKA_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
"""`sarameya.arrow.kafka_schema()` in Spark's words: the columns of Spark's own Kafka source."""


def staged_frame(spark: SparkSession, staged: Path) -> DataFrame:
    """The records of a staged file. Raises LandingError where Spark does not see it.

    By its URL: Spark's default file system may be another, and Hadoop decodes no %-escapes.
    """
    frame = spark.read.schema(KAFKA_COLUMNS).parquet(f"file://{staged}")
    if not frame.inputFiles():
        raise LandingError(f"Spark does not see the staged file {staged}; can it read that directory?")
    return frame


def staged_columns(staged: Path, columns: Sequence[str]) -> pa.Table:
    """Some columns of a staged file, read without Spark."""
    import pyarrow.parquet as pq

    return pq.read_table(staged, columns=list(columns))
