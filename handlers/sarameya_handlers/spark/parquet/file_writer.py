"""Files of a link: written by Spark, or the staged file unchanged. Synced to disk in a directory that readers skip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from itertools import groupby, islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from sarameya_handlers.landing.directory.data_files import DataFiles, directory_of
from sarameya_handlers.landing.directory.manifests import DataFile
from sarameya_handlers.landing.directory.parquet_merge import count_rows
from sarameya_handlers.landing.links import Link
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.parquet.schema import DirectorySchema, WriteSchema
from sarameya_handlers.spark.shaping.errors import TooManyPartitionsError
from sarameya_handlers.spark.shaping.partitions import (
    directory_rules,
    require_few_partitions,
    require_partition_columns,
)
from sarameya_handlers.spark.tables.one_job import write_each
from sarameya_handlers.spark.tables.table import Landing, Layout, Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TOPIC_IN_NAME = 100
"""A topic may have 249 characters, a file name 255. The attempt alone makes the name unique."""


def adopt(store: Store, landing: Landing) -> DataFile:
    """Make the staged file the link's file, durably.

    Raises:
        LandingError: The file has not one row for each record.
    """
    import pyarrow.parquet as pq

    assert landing.staged is not None, "it has records"
    rows, size = int(pq.read_metadata(landing.staged.path).num_rows), landing.staged.path.stat().st_size
    directory = directory_of(landing.link)
    file = DataFile(_file_name(landing.link, 0), rows, size, f"{directory}/part-0.parquet")
    check_rows(landing, [file])
    store.take(landing.staged.path, file.written)
    store.sync_files(directory, [file.written])
    return file


def write(
    spark: SparkSession,
    store: Store,
    landings: Iterable[Landing],
    shape: Shape,
    layout: Layout,
    schema: DirectorySchema,
) -> WriteSchema:
    """Write one file per attempt (and table partition), with one job per topic.

    One task writes all rows of an attempt, since the files of several tasks could not be distinguished.

    Checks before writing that the rows match `schema`. If the table is partitioned, another job checks that no attempt
    touches too many partitions.

    Raises:
        ShapeError: One of the checks failed.
    """
    topics = [list(of_topic) for _, of_topic in groupby(sorted(landings, key=_topic), key=_topic)]
    shaped = [frame for of_topic in topics for frame in shape.frames(spark, of_topic)]
    for frame in shaped:
        require_partition_columns(frame, layout.partition_by)
    conformed, written_schema = schema.conform(shaped)
    _require_few_partitions(conformed, layout)
    left = iter(conformed)
    for of_topic in topics:
        into = [directory_of(landing.link) for landing in of_topic]
        write_each(spark, store, into, list(islice(left, len(of_topic))), layout.partition_by)
    return written_schema


def _require_few_partitions(frames: Sequence[DataFrame], layout: Layout) -> None:
    """Raise TooManyPartitionsError if an attempt touches too many partitions of the table.

    One job checks all attempts together first: even together they rarely touch more partitions than one attempt may.
    """
    if not layout.partition_by:
        return
    together = reduce(lambda left, right: left.union(right), frames)
    rules = list(directory_rules(together.schema, layout.partition_by))
    try:
        require_few_partitions(together, layout.partition_by, layout.max_partitions, rules)
    except TooManyPartitionsError:
        for frame in frames:
            require_few_partitions(frame, layout.partition_by, layout.max_partitions, rules)


def settle(files: DataFiles, landing: Landing, layout: Layout) -> tuple[DataFile, ...]:
    """Return the files that Spark has written for an attempt. They are durable then."""
    settled = files.settle(landing.link, partial(_file_name, landing.link), partial(count_rows, files.store))
    if len({PurePosixPath(file.name).parent for file in settled}) > layout.max_partitions:
        raise TooManyPartitionsError(
            f"{landing} has rows of more than {layout.max_partitions} partitions of the table: "
            "partition it more coarsely, or allow more (max_partitions)"
        )
    return settled


def check_rows(landing: Landing, files: Iterable[DataFile]) -> None:
    """Raise LandingError unless these files have one row per record."""
    if (rows := sum(file.rows for file in files)) != landing.records:
        raise LandingError(f"{landing}: {rows} rows were written of {landing.records} records")


def _topic(landing: Landing) -> str:
    return landing.link.key.topic


def _file_name(link: Link, number: int) -> str:
    span = f"{link.from_offset:020}-{link.to_offset:020}"
    suffix = f"-{number}" if number else ""
    return f"part-{link.key.topic[:_TOPIC_IN_NAME]}-{link.key.partition}-{span}-{link.attempt}{suffix}.parquet"
