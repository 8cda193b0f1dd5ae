"""Files for direct commits, with the rows of attempts: the staged files themselves, or files that one Spark job writes.

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
    """Return the directory into which Spark writes rows before their commit."""
    return hidden(root) / "landing"


@contextmanager
def write_rows(
    spark: SparkSession,
    root: Path,
    landings: Sequence[Landing],
    shape: Shape,
    conform: Callable[[DataFrame], DataFrame | None],
) -> Iterator[Mapping[str, RowFile | None]]:
    """Provide files with the rows of these attempts inside a block, by attempt id.

    Files that the block does not move away are removed afterwards. The value is None for an attempt without rows.

    Args:
        spark: The session.
        root: The table's directory.
        landings: The attempts.
        shape: Converts records to rows.
        conform: Converts rows to the table's columns. Returns None for an attempt whose rows are not written.

    Raises:
        LandingError: The files could not be written or read back.
    """
    if shape.is_plain:
        yield {landing.link.attempt: _row_file(landing.staged, record_columns()) for landing in landings}
        return
    files: dict[str, RowFile | None] = {landing.link.attempt: None for landing in landings if landing.staged is None}
    staged = [landing for landing in landings if landing.staged is not None]
    frames = zip(staged, map(conform, shape.frames(spark, staged) if staged else ()), strict=True)
    writable = [(landing, frame) for landing, frame in frames if frame is not None]
    try:
        landed, rows = [landing for landing, _ in writable], [frame for _, frame in writable]
        write_each(spark, rows_directory(root), landed, rows, settings=_SETTINGS)
        require_all_read(spark, landed)
        for landing, frame in writable:
            file = _only_file(rows_directory(root) / landing.link.attempt)
            files[landing.link.attempt] = _row_file(file, frame.schema.jsonValue())
        yield files
    finally:
        for landing, _ in writable:
            shutil.rmtree(rows_directory(root) / landing.link.attempt, ignore_errors=True)


def _row_file(file: Path | None, columns: Columns) -> RowFile | None:
    return None if file is None else RowFile(file, columns)


def _only_file(directory: Path) -> Path | None:
    """Return the only file of an attempt; None if no file has rows. Spark may write an empty file.

    Raises:
        LandingError: The files cannot be read, or there are several.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        files = [file for file in directory.iterdir() if file.suffix == ".parquet" and pq.read_metadata(file).num_rows]
    except (OSError, pa.ArrowInvalid) as error:
        raise MissingFilesError(f"the files that Spark wrote into {directory} cannot be read: {error}") from error
    if len(files) > 1:
        raise LandingError(f"{directory} has {len(files)} files of one attempt, which must have one: {files}")
    return files[0] if files else None
