"""A landing's files: written by Spark, or the staged file as it is, and brought to the disk out of readers' sight."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from functools import partial, reduce
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

from sarameya_handlers.landing.data_files import DataFiles
from sarameya_handlers.landing.links import Link
from sarameya_handlers.landing.manifests import DataFile
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.parquet.reading import spark_path
from sarameya_handlers.spark.parquet.schema import DirectorySchema, Fit
from sarameya_handlers.spark.shaping.errors import TooManyPartitionsError
from sarameya_handlers.spark.shaping.partitions import require_few_partitions, require_partition_columns
from sarameya_handlers.spark.tables.settings import changed
from sarameya_handlers.spark.tables.table import Landing, Layout, Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

_TOPIC_IN_NAME = 100
"""A topic may have 249 characters, a file name 255; the attempt alone makes the name unique."""
_ATTEMPT = "_sarameya_attempt"
"""The column by which one job writes each landing's rows into a directory of its own."""
_TOGETHER = {
    # Else Spark sorts each task's rows by that column, though they all have the same, for a third of the time.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    # Else the union of frames of one task each is one task, since Spark 4.1, and one core writes them all.
    "spark.sql.unionOutputPartitioning": "false",
}
"""Settings for a job that writes several landings, each in a task of its own."""


def adopt(files: DataFiles, landing: Landing) -> None:
    """The staged file becomes the link's."""
    if landing.staged:
        directory = files.directory(landing.link.attempt)
        directory.mkdir()
        landing.staged.rename(directory / "part-0.parquet")


def write(
    spark: SparkSession,
    files: DataFiles,
    landings: Iterable[Landing],
    shape: Shape,
    layout: Layout,
    schema: DirectorySchema,
) -> Fit:
    """One job a topic, one file a landing (and a partition of the table): several tasks of one could not be told apart.

    Before anything is written it is known that the rows fit `schema` and, with a job more where the table is
    partitioned, that no landing touches too many of its partitions. Raises ShapeError.
    """
    topics = [list(those) for _, those in groupby(sorted(landings, key=_topic), key=_topic)]
    shaped = [frame for of_topic in topics for frame in shape.frames(spark, of_topic)]
    for frame in shaped:
        require_partition_columns(frame, layout.partition_by)
    fitted, fit = schema.fit(shaped)
    _require_few_partitions(fitted, layout)
    left = iter(frame.coalesce(1) for frame in fitted)
    for of_topic in topics:
        frames = list(islice(left, len(of_topic)))
        if len(of_topic) == 1:
            directory = files.directory(of_topic[0].link.attempt)
            _writer(frames[0], layout.partition_by).parquet(spark_path(directory))
        else:
            _write_together(spark, files, of_topic, frames, layout.partition_by)
    return fit


def _require_few_partitions(frames: Sequence[DataFrame], layout: Layout) -> None:
    """Asked of all together first, with one job: seldom do many landings touch more than one of them may."""
    if not layout.partition_by:
        return
    together = reduce(lambda one, other: one.union(other), frames)
    try:
        require_few_partitions(together, layout.partition_by, layout.max_partitions)
    except TooManyPartitionsError:
        for frame in frames:
            require_few_partitions(frame, layout.partition_by, layout.max_partitions)


def _write_together(
    spark: SparkSession,
    files: DataFiles,
    landings: Sequence[Landing],
    frames: Sequence[DataFrame],
    partition_by: tuple[str, ...],
) -> None:
    from pyspark.sql.functions import lit

    attempts = [landing.link.attempt for landing in landings]
    marked = [frame.withColumn(_ATTEMPT, lit(attempt)) for frame, attempt in zip(frames, attempts, strict=True)]
    together = files.writing / f"{attempts[0]}-and-others"
    try:
        union = reduce(lambda one, other: one.union(other), marked)
        with changed(spark, _TOGETHER):
            _writer(union, (_ATTEMPT, *partition_by)).parquet(spark_path(together))
        for attempt in attempts:
            written = together / f"{_ATTEMPT}={attempt}"
            if written.exists():
                written.rename(files.directory(attempt))
    finally:
        shutil.rmtree(together, ignore_errors=True)


def settle(files: DataFiles, landing: Landing, layout: Layout) -> tuple[DataFile, ...]:
    """What was written of a landing, brought to the disk."""
    settled = files.settle(landing.link.attempt, partial(_file_name, landing.link), _row_count)
    if len({Path(file.name).parent for file in settled}) > layout.max_partitions:
        raise LandingError(
            f"{landing} has rows of more than {layout.max_partitions} partitions of the table: "
            "partition it more coarsely, or allow more (max_partitions)"
        )
    return settled


def check_rows(landing: Landing, files: Iterable[DataFile]) -> None:
    """Raises LandingError where these files have not a row for each record."""
    if (rows := sum(file.rows for file in files)) != landing.records:
        raise LandingError(f"{landing}: {rows} rows were written of {landing.records} records")


def _topic(landing: Landing) -> str:
    return landing.link.key.topic


def _writer(frame: DataFrame, partition_by: tuple[str, ...]) -> DataFrameWriter:
    writer = frame.write.option("maxRecordsPerFile", 0)
    return writer.partitionBy(*partition_by) if partition_by else writer


def _file_name(link: Link, number: int) -> str:
    span = f"{link.from_offset:020}-{link.to_offset:020}"
    which = f"-{number}" if number else ""
    return f"part-{link.key.topic[:_TOPIC_IN_NAME]}-{link.key.partition}-{span}-{link.attempt}{which}.parquet"


def _row_count(file: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(file).num_rows)
