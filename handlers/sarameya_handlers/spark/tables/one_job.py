"""A single Spark job that writes the rows of several attempts, each into its own directory, hidden from readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING

from sarameya_handlers.landing.directory.data_files import TOGETHER
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.file_visibility import count_rows_below, is_local
from sarameya_handlers.spark.tables.row_count import RowCount, functions_for
from sarameya_handlers.spark.tables.settings import temporary_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

MAX_TOGETHER = 32
"""Maximum number of attempts in one job. Each attempt is one task."""
DIRECTORIES_IN_UTC = ("timeZone", "UTC")
"""A read and write option. Without it, Spark names directories by timestamps in the session's time zone, in which one
hour of each year may occur twice."""
_NO_MARK = ("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
"""A write option. Without it, Spark leaves a file _SUCCESS beside each attempt's files."""
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
    store: Store,
    into: Sequence[str],
    frames: Sequence[DataFrame],
    partition_by: tuple[str, ...] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the rows of each attempt into a directory of its own, as one Parquet file per table partition.

    Args:
        spark: The session.
        store: Holds the directories.
        into: The attempts' directories, which have one parent and do not exist.
        frames: The attempts' rows. All frames have the same columns, in the same order.
        partition_by: Columns by whose values directories are named.
        settings: Spark settings for the job.

    Raises:
        LandingError: Written rows are missing.
    """
    is_seen_here = is_local(spark) and isinstance(store, LocalStore)
    counted = {} if is_seen_here else dict(zip(into, map(RowCount.of, frames), strict=True))
    frames = [count.frame for count in counted.values()] or frames
    single = [frame.coalesce(1) for frame in frames]
    with temporary_settings(spark, settings):
        if len(into) == 1:
            _writer(single[0], partition_by).parquet(store.spark_url(into[0]))
            _require(store, into[0])
        elif into:
            _write_together(spark, store, into, single, partition_by)
    for directory, count in counted.items():
        if (seen := count_rows_below(store, directory)) != (rows := count.rows or 0):
            raise MissingFilesError(
                f"only {seen} of the {rows} rows that Spark wrote into {store.place}/{directory} are there: "
                "do all machines of Spark mount this directory?"
            )


def _write_together(
    spark: SparkSession,
    store: Store,
    into: Sequence[str],
    frames: Sequence[DataFrame],
    partition_by: tuple[str, ...],
) -> None:
    parent = into[0].rpartition("/")[0]
    names = [directory.removeprefix(f"{parent}/") for directory in into]
    lit = functions_for(frames[0]).lit
    marked = [frame.withColumn(_ATTEMPT, lit(name)) for frame, name in zip(frames, names, strict=True)]
    together = into[0] + TOGETHER
    try:
        union = reduce(lambda left, right: left.union(right), marked)
        with temporary_settings(spark, _SETTINGS):
            _writer(union, (_ATTEMPT, *partition_by)).parquet(store.spark_url(together))
        _require(store, together)
        for directory, name in zip(into, names, strict=True):
            written = f"{together}/{_ATTEMPT}={name}"
            if store.has_files(written):  # otherwise it has no rows
                store.rename(written, directory)
    finally:
        with suppress(OSError):
            store.remove(together)


def _require(store: Store, directory: str) -> None:
    # Spark leaves a directory even if there are no rows. On an object store it may leave nothing.
    if isinstance(store, LocalStore) and not store.has_files(directory):
        raise MissingFilesError(
            f"the files that Spark wrote into {store.path(directory)} are missing: were they swept?"
        )


def _writer(frame: DataFrame, partition_by: tuple[str, ...]) -> DataFrameWriter:
    writer = frame.write.option("maxRecordsPerFile", 0).option(*DIRECTORIES_IN_UTC).option(*_NO_MARK)
    return writer.partitionBy(*partition_by) if partition_by else writer
