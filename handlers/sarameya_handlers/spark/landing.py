"""One landing from beginning to end: Arrow, staged file, DataFrame, transform, table. Blocking; run in a thread.

Staged by pyarrow and read back by Spark, not `createDataFrame(pyarrow.Table)`: that copies the records into the
driver's heap and into its tasks, where two landings of 60 MB at once end a driver of Spark's default size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.parquet import spark_path
from sarameya_handlers.spark.table import Checkpoint, Landing, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from sarameya_handlers.spark.options import Transform

KAFKA_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
"""`sarameya.arrow.kafka_schema()` in Spark's words: the columns of Spark's own Kafka source."""


def land(
    spark: SparkSession,
    checkpoint: Checkpoint,
    *,
    records: pa.Table,
    landing: Landing,
    table: Table,
    transform: Transform | None,
) -> int:
    """Append the records to the table; the number of rows appended. Raises whatever went wrong."""
    import pyarrow.parquet as pq

    # No leading underscore or dot: Spark would silently read nothing from such a file.
    staged = table.staging / f"{landing.attempt}.parquet"
    try:
        # Written once, read once, right away: nothing to gain from packing it.
        pq.write_table(records, staged, compression="none", use_dictionary=False, write_statistics=False)
        frame = spark.read.schema(KAFKA_COLUMNS).parquet(spark_path(staged))
        if not frame.inputFiles():
            raise LandingError(f"Spark does not see the staged file {staged}; can it read that directory?")
        checkpoint()
        rows = table.append(landing, _transformed(frame, transform), checkpoint)
    finally:
        staged.unlink(missing_ok=True)
    if transform is None and rows != landing.rows:
        raise LandingError(f"Spark wrote {rows} rows of {landing.rows} collected")
    return rows


def _transformed(frame: DataFrame, transform: Transform | None) -> DataFrame:
    if transform is None:
        return frame
    made: object = transform(frame)
    # By what it can do: pyspark has several classes of DataFrame, according to how it is run.
    if not (hasattr(made, "coalesce") and hasattr(made, "write")):
        raise LandingError(f"transform must return a DataFrame, not {type(made).__name__}")
    return cast("DataFrame", made)
