"""Readers of the rows of a directory in which records land."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from sarameya import HandlerError
from sarameya_handlers.landing.directory.data_files import REPLACED, DataFiles
from sarameya_handlers.landing.directory.parquet_merge import open_file
from sarameya_handlers.landing.stores.options import StoreOptions
from sarameya_handlers.landing.stores.places import store_at
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.errors import text_of
from sarameya_handlers.spark.parquet.schema import newest_columns
from sarameya_handlers.spark.tables.columns import arrow_types, struct
from sarameya_handlers.spark.tables.one_job import DIRECTORIES_IN_UTC

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, SparkSession


_ATTEMPTS = 10
"""Maximum number of attempts to list a directory, if each time files move while Spark lists them."""


def read_landing(spark: SparkSession, path: str | os.PathLike[str], *, store: StoreOptions | None = None) -> DataFrame:
    """Return the rows of a directory written by a `ParquetTable`: all rows of each link, or none.

    They have the columns of the directory's newest schema. A column is null in rows that landed before it was added.

    Args:
        spark: The session.
        path: The table's directory or URL.
        store: How to reach an object store.

    Raises:
        HandlerError: Nothing has landed there, or files keep moving.
    """
    return read_on(spark, store_at(path, store))


def read_on(spark: SparkSession, store: Store) -> DataFrame:
    """Return the rows of a directory, as `read_landing` does."""
    landed = DataFiles(store)
    for _ in range(_ATTEMPTS):
        files = [store.spark_url(name) for _, name in landed.live()]
        if not files:
            raise HandlerError(f"nothing has landed in {store.place}")
        reader = spark.read.option("basePath", store.spark_url("").rstrip("/")).option(*DIRECTORIES_IN_UTC)
        # Read the schema after the files: then it has all their columns. Without it, Spark takes those of one file.
        if (columns := newest_columns(landed)) is not None:
            reader = reader.schema(struct(columns))
        try:
            frame = reader.parquet(*files)
            # Spark lists files twice, and silently leaves out those that it found only the first time.
            if len(frame.inputFiles()) == len(files):
                return frame
        except Exception as error:
            if "[PATH_NOT_FOUND]" not in (text_of(error) or ""):
                raise
    raise HandlerError(
        f"files of {store.place} were moved {_ATTEMPTS} times while Spark listed them: is it compacted in a loop?"
    )


def landed_files(path: str | os.PathLike[str], *, store: StoreOptions | None = None) -> list[str]:
    """Return the files that hold the rows of a directory that a `ParquetTable` lands in: each row once.

    For readers other than Spark, even while the directory is compacted. A file may move before it is read: call again
    if a reader raises that the file does not exist. Each file has its own columns. Spark may skip a missing file
    instead of raising: use `read_landing` for it.

    Args:
        path: The table's directory or URL.
        store: How to reach an object store.

    Returns:
        Paths or URLs of Parquet files, some of them below the directory's `_sarameya`.
    """
    directory = store_at(path, store)
    return [f"{directory.place}/{name}" for _, name in DataFiles(directory).live()]


def batches(files: DataFiles, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield record batches of all files, even of files that no link names, since plain readers see them, too.

    Columns that were added later are null in older files. Columns stored only in directory names are left out.
    """
    import pyarrow as pa

    places = _places(files)
    # After the files, as in `read_landing`.
    types = arrow_types(newest_columns(files) or {"fields": []})
    for name, place in sorted(places.items()):
        with _open(files, name, place) as file:
            present = [column for column in columns if column in file.schema_arrow.names]
            absent = {
                column: types[column]
                for column in columns
                if column in types and column not in present and f"/{column}=" not in f"/{name}"
            }
            for batch in file.iter_batches(columns=present):
                for column, kind in absent.items():
                    batch = batch.append_column(column, pa.nulls(batch.num_rows, kind))
                yield batch


def _places(files: DataFiles) -> dict[str, str]:
    """Return the current name of each file that a link names or that plain readers see, by its final name."""
    # In this order: a file that is published meanwhile is found in one place or the other, and counted once.
    seen = [name for name in files.store.names("") if name.endswith(".parquet")]
    places = {file.name: name for file, name in files.live()}
    # A compaction removes the files that it replaces before it adds its own. If it died in between, its list of
    # replaced files still tells which files do not count.
    replaced = {name: compaction for compaction in files.compactions.all() for name in compaction.replaced}
    for name in seen:
        compaction = replaced.get(name)
        is_replaced = compaction is not None and not (files.is_published(compaction) and files.store.is_there(name))
        if not (_is_hidden(name) or is_replaced):
            places.setdefault(name, name)
    return places


def _open(files: DataFiles, name: str, place: str) -> pq.ParquetFile:
    """Open a file, even if it has been published or replaced since it was listed."""
    for path in (place, name):
        with suppress(FileNotFoundError):
            return open_file(files.store, path)
    replaced = (f"{REPLACED}/{number}/{name}" for number in files.store.entries(REPLACED))
    return open_file(files.store, next(filter(files.store.is_there, replaced), place))


def _is_hidden(name: str) -> bool:
    """Return whether plain readers skip this path below the directory."""
    return any(part.startswith(("_", ".")) for part in PurePosixPath(name).parts)
