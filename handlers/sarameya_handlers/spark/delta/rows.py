"""The rows of landings in files that are to be the table's: as they were staged, or written by one job of Spark's.

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
from sarameya_handlers.spark.shaping.staged import require_all_read
from sarameya_handlers.spark.tables.columns import Columns, of_arrow
from sarameya_handlers.spark.tables.one_job import GoneError, write_each
from sarameya_handlers.spark.tables.table import Landing, Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Others have no statistics, or in other units (file_facts.py)."""


@attrs.frozen(slots=True)
class Rows:
    """Of one landing, and their columns."""

    file: Path
    columns: Columns


@cache
def records() -> Columns:
    """Of records as they are."""
    from sarameya.arrow import kafka_schema

    return of_arrow(kafka_schema())


def writing(root: Path) -> Path:
    """Where rows are written."""
    return hidden(root) / "landing"


@contextmanager
def written(
    spark: SparkSession,
    root: Path,
    landings: Sequence[Landing],
    shape: Shape,
    fitted: Callable[[DataFrame], DataFrame | None],
) -> Iterator[Mapping[str, Rows | None]]:
    """Have the rows of these landings in files, by attempt, for the length of a block; what is not moved away in it is
    removed. None for a landing without any. `fitted` makes rows what the table wants, all with the same columns; what
    it returns None for is left out. Raises LandingError."""
    if shape.is_plain:
        yield {landing.link.attempt: _rows(landing.staged, records()) for landing in landings}
        return
    made: dict[str, Rows | None] = {landing.link.attempt: None for landing in landings if landing.staged is None}
    staged = [landing for landing in landings if landing.staged is not None]
    frames = zip(staged, map(fitted, shape.frames(spark, staged) if staged else ()), strict=True)
    fit = [(landing, frame) for landing, frame in frames if frame is not None]
    try:
        landed, rows = [landing for landing, _ in fit], [frame for _, frame in fit]
        write_each(spark, writing(root), landed, rows, settings=_SETTINGS)
        require_all_read(spark, landed)
        for landing, frame in fit:
            file = _file(writing(root) / landing.link.attempt)
            made[landing.link.attempt] = _rows(file, frame.schema.jsonValue())
        yield made
    finally:
        for landing, _ in fit:
            shutil.rmtree(writing(root) / landing.link.attempt, ignore_errors=True)


def _rows(file: Path | None, columns: Columns) -> Rows | None:
    return None if file is None else Rows(file, columns)


def _file(directory: Path) -> Path | None:
    """The one file of a landing; None where that has no rows, of which Spark may write a file. Raises LandingError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        files = [file for file in directory.iterdir() if file.suffix == ".parquet" and pq.read_metadata(file).num_rows]
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        raise GoneError(f"what Spark has written into {directory} cannot be read: {error}") from error
    if len(files) > 1:
        raise LandingError(f"{directory} has {len(files)} files of a landing, which one task has written: {files}")
    return files[0] if files else None
