"""Reading the rows of a landed directory."""

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
from sarameya_handlers.spark.tables.one_job import DIRECTORIES_IN_UTC
from sarameya_handlers.spark.tables.reach import spark_path

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, SparkSession


_ATTEMPTS = 10
"""Attempts to list a directory whose files move each time while Spark lists them."""


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
        # Read last: then it has each column of these files. Without a schema, Spark takes the columns of one file.
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
        f"files of {root} were moved {_ATTEMPTS} times while they were looked for: is it compacted in a loop?"
    )


def landed_files(path: str | os.PathLike[str]) -> list[str]:
    """Return the files that hold the rows of a directory that a `ParquetTable` lands in: each row once.

    For readers other than Spark, also while the directory is compacted. A file may move before it is read; if a reader
    raises that it does not exist, call again. Each file has its own columns. Spark may skip a file instead of raising:
    use `read_landing` for it.

    Args:
        path: The table's directory.

    Returns:
        Paths of Parquet files, some of them below the directory's `_sarameya`.
    """
    return [str(place) for _, place in DataFiles(Path(os.fspath(path)).absolute()).live()]


def batches(files: DataFiles, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield record batches of all files, also of those that no link names, since plain readers see them, too.

    Columns that were added later are null in older files. Columns stored only in directory names are left out.
    """
    import pyarrow as pa

    places = _places(files)
    # After the files, as above.
    types = arrow_types(newest_columns(files) or {"fields": []})
    for name, place in sorted(places.items()):
        with _opened(files, name, place) as file:
            there = [column for column in columns if column in file.schema_arrow.names]
            lacking = {
                column: types[column]
                for column in columns
                if column in types and column not in there and f"/{column}=" not in f"/{name}"
            }
            for batch in file.iter_batches(columns=there):
                for column, kind in lacking.items():
                    batch = batch.append_column(column, pa.nulls(batch.num_rows, kind))
                yield batch


def _places(files: DataFiles) -> dict[str, Path]:
    """Return the place of every file of a link, and of every other that plain readers see, by name."""
    # In this order: a file that is published meanwhile is found in one place or the other, and counted once.
    seen = [Path(name) for name in names_below(files.root) if name.endswith(".parquet")]
    places = {file.name: place for file, place in files.live()}
    # A compaction removes what it replaces before it adds its own files. If it died in between, its list of replaced
    # files still says which ones do not count.
    replaced = {name: compaction for compaction in files.compactions.all() for name in compaction.replaced}
    for path in seen:
        by = replaced.get(str(path))
        is_replaced = by is not None and (is_there(files.directory(by.attempt)) or not is_there(files.root / path))
        if not (_is_hidden(path) or is_replaced):
            places.setdefault(str(path), files.root / path)
    return places


def _opened(files: DataFiles, name: str, place: Path) -> pq.ParquetFile:
    """Open a file, even if it has been published or replaced since it was listed."""
    import pyarrow.parquet as pq

    for path in (place, files.root / name):
        with suppress(FileNotFoundError):
            return pq.ParquetFile(path)
    replaced = (by / name for by in listed(files.replaced))
    return pq.ParquetFile(next(filter(is_there, replaced), place))


def _is_hidden(path: Path) -> bool:
    """Return whether plain readers skip this path below the directory."""
    return any(part.startswith(("_", ".")) for part in path.parts)
