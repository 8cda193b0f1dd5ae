"""A single Spark job that writes the rows of several attempts, each into its own directory, hidden from readers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sarameya_handlers.landing.files import is_there
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.file_visibility import count_rows_below, is_local, spark_path
from sarameya_handlers.spark.tables.row_count import RowCount, functions_for
from sarameya_handlers.spark.tables.settings import temporary_settings
from sarameya_handlers.spark.tables.table import Landing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

MAX_TOGETHER = 32
"""Maximum number of attempts in one job. Each attempt is one task."""
DIRECTORIES_IN_UTC = ("timeZone", "UTC")
"""A read and write option. Without it, Spark names directories by timestamps in the session's time zone, in which one
hour of each year may occur twice."""
_ATTEMPT = "_sarameya_attempt"
"""Column by which one job writes each attempt's rows into its own directory."""
_SETTINGS = {
    # Otherwise Spark sorts each task's rows by `_ATTEMPT`, although all values are equal. The sort takes a third of the
    # time.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    # Otherwise, since Spark 4.1, the union of single-task frames is one task, and a single core writes all of them.
    "spark.sql.unionOutputPartitioning": "false",
}
"""Settings for a job that writes several attempts, each in its own task."""


class MissingFilesError(LandingError):
    """Files are missing where they were written."""

    passes = True


def write_each(
    spark: SparkSession,
    into: Path,
    landings: Sequence[Landing],
    frames: Sequence[DataFrame],
    partition_by: tuple[str, ...] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the rows of each attempt into the directory `into`/<attempt>, as one Parquet file per table partition.

    Args:
        spark: The session.
        into: Parent of the attempts' directories.
        landings: The attempts.
        frames: Their rows. All frames have the same columns, in the same order.
        partition_by: Columns by whose values directories are named.
        settings: Spark settings for the job.

    Raises:
        LandingError: Written rows are missing.
    """
    attempts = [landing.link.attempt for landing in landings]
    counted = {} if is_local(spark) else dict(zip(attempts, map(RowCount.of, frames), strict=True))
    frames = [count.frame for count in counted.values()] or frames
    single = [frame.coalesce(1) for frame in frames]
    with temporary_settings(spark, settings):
        if len(attempts) == 1:
            _writer(single[0], partition_by).parquet(spark_path(into / attempts[0]))
        elif attempts:
            _write_together(spark, into, attempts, single, partition_by)
    for attempt in attempts:
        if not (into / attempt).is_dir():
            raise MissingFilesError(f"the files that Spark wrote into {into / attempt} are missing: were they swept?")
    for attempt, count in counted.items():
        if (seen := count_rows_below(into / attempt)) != (rows := count.rows or 0):
            raise MissingFilesError(
                f"only {seen} of the {rows} rows that Spark wrote into {into / attempt} are there: "
                "do all machines of Spark mount this directory?"
            )


def _write_together(
    spark: SparkSession, into: Path, attempts: Sequence[str], frames: Sequence[DataFrame], partition_by: tuple[str, ...]
) -> None:
    lit = functions_for(frames[0]).lit
    marked = [frame.withColumn(_ATTEMPT, lit(attempt)) for frame, attempt in zip(frames, attempts, strict=True)]
    together = into / f"{attempts[0]}-and-others"
    try:
        union = reduce(lambda left, right: left.union(right), marked)
        with temporary_settings(spark, _SETTINGS):
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
    writer = frame.write.option("maxRecordsPerFile", 0).option(*DIRECTORIES_IN_UTC)
    return writer.partitionBy(*partition_by) if partition_by else writer
