"""Files with the rows of attempts, to be committed directly: the staged file itself, or written by one Spark job.

<root>/_sarameya/landing/<attempt>/part-...     until it is moved into the table's directory, right before its commit
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from sarameya_handlers.spark.delta.place import hidden
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.columns import Columns, of_arrow
from sarameya_handlers.spark.tables.one_job import MissingFilesError, write_each
from sarameya_handlers.spark.tables.staged_files import require_all_read
from sarameya_handlers.spark.tables.table import Landing, Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Other timestamp types have no statistics, or use other units (file_statistics.py)."""


@attrs.frozen(slots=True)
class RowFile:
    """A file with the rows of one attempt, and their columns."""

    file: Path
    columns: Columns


@cache
def record_columns() -> Columns:
    """Return the columns of unchanged Kafka records."""
    from sarameya.arrow import kafka_schema

    return of_arrow(kafka_schema())


def rows_directory(root: Path) -> Path:
    """Return the directory into which rows are written."""
    return hidden(root) / "landing"


@contextmanager
def write_rows(
    spark: SparkSession,
    root: Path,
    landings: Sequence[Landing],
    shape: Shape,
    conform: Callable[[DataFrame], DataFrame | None],
) -> Iterator[Mapping[str, RowFile | None]]:
    """Provide files with the rows of these attempts for the length of a block, by attempt id.

    Files that the block does not move away are removed afterwards. The value is None for an attempt without rows.

    Args:
        spark: The session.
        root: The table's directory.
        landings: The attempts.
        shape: Makes rows of records.
        conform: Converts rows to the table's columns, all alike. Returns None for rows that must be left out.

    Raises:
        LandingError: The files could not be written or read back.
    """
    if shape.is_plain:
        yield {landing.link.attempt: _rows(landing.staged, record_columns()) for landing in landings}
        return
    made: dict[str, RowFile | None] = {landing.link.attempt: None for landing in landings if landing.staged is None}
    staged = [landing for landing in landings if landing.staged is not None]
    frames = zip(staged, map(conform, shape.frames(spark, staged) if staged else ()), strict=True)
    writable = [(landing, frame) for landing, frame in frames if frame is not None]
    try:
        landed, rows = [landing for landing, _ in writable], [frame for _, frame in writable]
        write_each(spark, rows_directory(root), landed, rows, settings=_SETTINGS)
        require_all_read(spark, landed)
        for landing, frame in writable:
            file = _file(rows_directory(root) / landing.link.attempt)
            made[landing.link.attempt] = _rows(file, frame.schema.jsonValue())
        yield made
    finally:
        for landing, _ in writable:
            shutil.rmtree(rows_directory(root) / landing.link.attempt, ignore_errors=True)


def _rows(file: Path | None, columns: Columns) -> RowFile | None:
    return None if file is None else RowFile(file, columns)


def _file(directory: Path) -> Path | None:
    """Return the only file of an attempt; None if there is none with rows. Spark may write an empty one.

    Raises:
        LandingError: The files cannot be read, or there are several.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        files = [file for file in directory.iterdir() if file.suffix == ".parquet" and pq.read_metadata(file).num_rows]
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        raise MissingFilesError(f"what Spark has written into {directory} cannot be read: {error}") from error
    if len(files) > 1:
        raise LandingError(f"{directory} has {len(files)} files of a landing, which one task has written: {files}")
    return files[0] if files else None
