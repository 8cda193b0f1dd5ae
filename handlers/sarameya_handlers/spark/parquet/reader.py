"""Readers of the rows of a directory in which records land."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sarameya import HandlerError
from sarameya_handlers.landing.directory.data_files import DataFiles, names_below
from sarameya_handlers.landing.files import is_there, listed
from sarameya_handlers.spark.errors import text_of
from sarameya_handlers.spark.parquet.schema import newest_columns
from sarameya_handlers.spark.tables.columns import arrow_types, struct
from sarameya_handlers.spark.tables.file_visibility import spark_path
from sarameya_handlers.spark.tables.one_job import DIRECTORIES_IN_UTC

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, SparkSession


_ATTEMPTS = 10
"""Maximum number of attempts to list a directory, if each time files move while Spark lists them."""


def read_landing(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    """Return the rows of a directory written by a `ParquetTable`: all rows of each link, or none.

    They have the columns of the directory's newest schema. A column is null in rows that landed before it was added.

    Args:
        spark: The session.
        path: The table's directory.

    Raises:
        HandlerError: Nothing has landed there, or files keep moving.
    """
    root = Path(os.fspath(path)).absolute()
    landed = DataFiles(root)
    for _ in range(_ATTEMPTS):
        files = [place for _, place in landed.live()]
        if not files:
            raise HandlerError(f"nothing has landed in {root}")
        reader = spark.read.option("basePath", spark_path(root)).option(*DIRECTORIES_IN_UTC)
        # Read the schema after the files: then it has all their columns. Without it, Spark takes those of one file.
        if (columns := newest_columns(landed)) is not None:
            reader = reader.schema(struct(columns))
        try:
            frame = reader.parquet(*map(spark_path, files))
            # Spark lists files twice, and silently leaves out those that it found only the first time.
            if len(frame.inputFiles()) == len(files):
                return frame
        except Exception as error:
            if "[PATH_NOT_FOUND]" not in (text_of(error) or ""):
                raise
    raise HandlerError(
        f"files of {root} were moved {_ATTEMPTS} times while Spark listed them: is it compacted in a loop?"
    )


def landed_files(path: str | os.PathLike[str]) -> list[str]:
    """Return the files that hold the rows of a directory that a `ParquetTable` lands in: each row once.

    For readers other than Spark, even while the directory is compacted. A file may move before it is read: call again
    if a reader raises that the file does not exist. Each file has its own columns. Spark may skip a missing file
    instead of raising: use `read_landing` for it.

    Args:
        path: The table's directory.

    Returns:
        Paths of Parquet files, some of them below the directory's `_sarameya`.
    """
    return [str(place) for _, place in DataFiles(Path(os.fspath(path)).absolute()).live()]


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


def _places(files: DataFiles) -> dict[str, Path]:
    """Return the path of each file that a link names or that plain readers see, by name."""
    # In this order: a file that is published meanwhile is found in one place or the other, and counted once.
    seen = [Path(name) for name in names_below(files.root) if name.endswith(".parquet")]
    places = {file.name: place for file, place in files.live()}
    # A compaction removes the files that it replaces before it adds its own. If it died in between, its list of
    # replaced files still tells which files do not count.
    replaced = {name: compaction for compaction in files.compactions.all() for name in compaction.replaced}
    for path in seen:
        compaction = replaced.get(str(path))
        is_replaced = compaction is not None and (
            is_there(files.directory(compaction.attempt)) or not is_there(files.root / path)
        )
        if not (_is_hidden(path) or is_replaced):
            places.setdefault(str(path), files.root / path)
    return places


def _open(files: DataFiles, name: str, place: Path) -> pq.ParquetFile:
    """Open a file, even if it has been published or replaced since it was listed."""
    import pyarrow.parquet as pq

    for path in (place, files.root / name):
        with suppress(FileNotFoundError):
            return pq.ParquetFile(path)
    replaced = (directory / name for directory in listed(files.replaced))
    return pq.ParquetFile(next(filter(is_there, replaced), place))


def _is_hidden(path: Path) -> bool:
    """Return whether plain readers skip this path below the directory."""
    return any(part.startswith(("_", ".")) for part in path.parts)
