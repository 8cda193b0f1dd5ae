"""Several landings' rows written with one job of Spark's, each into a directory of its own, out of readers' sight."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sarameya_handlers.landing.files import is_there
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.reach import is_here, rows_below, spark_path
from sarameya_handlers.spark.tables.row_count import RowCount, functions_for
from sarameya_handlers.spark.tables.settings import changed
from sarameya_handlers.spark.tables.table import Landing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

TOGETHER = 32
"""Landings that share a job at most: each is a task of its own."""
NAMED_IN_UTC = ("timeZone", "UTC")
"""An option, without which directories are named by timestamps in the session's time zone, where an hour of each year
is there twice."""
_ATTEMPT = "_sarameya_attempt"
"""The column by which one job writes each landing's rows into a directory of its own."""
_SETTINGS = {
    # Else Spark sorts each task's rows by that column, though they all have the same, for a third of the time.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    # Else the union of frames of one task each is one task, since Spark 4.1, and one core writes them all.
    "spark.sql.unionOutputPartitioning": "false",
}
"""Settings for a job that writes several landings, each in a task of its own."""


class GoneError(LandingError):
    """Files are not where they were written."""

    passes = True


def write_each(
    spark: SparkSession,
    into: Path,
    landings: Sequence[Landing],
    frames: Sequence[DataFrame],
    partition_by: tuple[str, ...] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the rows of each landing, a Parquet file (and one for each partition of the table), into the directory
    `into`/<attempt>. The frames have the same columns, by name and in order. Raises LandingError where what was written
    is not seen."""
    attempts = [landing.link.attempt for landing in landings]
    counted = {} if is_here(spark) else dict(zip(attempts, map(RowCount.of, frames), strict=True))
    frames = [count.frame for count in counted.values()] or frames
    single = [frame.coalesce(1) for frame in frames]
    with changed(spark, settings):
        if len(attempts) == 1:
            _writer(single[0], partition_by).parquet(spark_path(into / attempts[0]))
        elif attempts:
            _write_together(spark, into, attempts, single, partition_by)
    for attempt in attempts:
        if not (into / attempt).is_dir():
            raise GoneError(f"what Spark has written into {into / attempt} is not there: was it swept away?")
    for attempt, count in counted.items():
        if (seen := rows_below(into / attempt)) != (rows := count.rows or 0):
            raise GoneError(
                f"of {rows} rows that Spark has written into {into / attempt} {seen} are there: "
                "have all of its machines that directory mounted?"
            )


def _write_together(
    spark: SparkSession, into: Path, attempts: Sequence[str], frames: Sequence[DataFrame], partition_by: tuple[str, ...]
) -> None:
    lit = functions_for(frames[0]).lit
    marked = [frame.withColumn(_ATTEMPT, lit(attempt)) for frame, attempt in zip(frames, attempts, strict=True)]
    together = into / f"{attempts[0]}-and-others"
    try:
        union = reduce(lambda one, other: one.union(other), marked)
        with changed(spark, _SETTINGS):
            _writer(union, (_ATTEMPT, *partition_by)).parquet(spark_path(together))
        for attempt in attempts if together.is_dir() else ():
            written = together / f"{_ATTEMPT}={attempt}"
            if is_there(written):
                written.rename(into / attempt)
            else:
                (into / attempt).mkdir()  # it has no rows
    finally:
        shutil.rmtree(together, ignore_errors=True)


def _writer(frame: DataFrame, partition_by: tuple[str, ...]) -> DataFrameWriter:
    writer = frame.write.option("maxRecordsPerFile", 0).option(*NAMED_IN_UTC)
    return writer.partitionBy(*partition_by) if partition_by else writer
