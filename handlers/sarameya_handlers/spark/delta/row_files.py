"""Files for direct commits, with the rows of attempts: the staged files themselves, or files that one Spark job writes.

_sarameya/landing/<attempt>/part-...     moved into the table's directory right before the commit
sarameya-landing/<attempt>/part-...      in an object store, where a move is a copy: the commit names this file
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.delta.place import HIDDEN
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.columns import Columns, of_arrow
from sarameya_handlers.spark.tables.one_job import MissingFilesError, write_each
from sarameya_handlers.spark.tables.staged_records import require_all_read
from sarameya_handlers.spark.tables.table import Landing, Shape

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Other timestamp types have no statistics, or use other units (file_statistics.py)."""


@attrs.define(slots=True)
class RowFile:
    """A file with the rows of one attempt."""

    file: Path | str
    """A staged file of this machine, or the name of a file that Spark wrote into the table's store."""
    columns: Columns
    footer: pq.FileMetaData
    size: int
    is_in_table: bool = False
    """True once a commit may name the file."""


@cache
def record_columns() -> Columns:
    """Return the columns of unchanged Kafka records."""
    from sarameya.arrow import kafka_schema

    return of_arrow(kafka_schema())


def rows_directory(store: Store) -> str:
    """Return the directory into which Spark writes rows before their commit."""
    return "sarameya-landing" if store.moves_by_copy else f"{HIDDEN}/landing"


@contextmanager
def write_rows(
    spark: SparkSession,
    store: Store,
    landings: Sequence[Landing],
    shape: Shape,
    conform: Callable[[DataFrame], DataFrame | None],
    *,
    adopts: bool,
) -> Iterator[Mapping[str, RowFile | None]]:
    """Provide files with the rows of these attempts inside a block, by attempt id.

    Files that are not in the table by then are removed afterwards. The value is None for an attempt without rows.

    Args:
        spark: The session.
        store: The table's files.
        landings: The attempts.
        shape: Converts records to rows.
        conform: Converts rows to the table's columns. Returns None for an attempt whose rows are not written.
        adopts: Whether the staged files become the table's as they are.

    Raises:
        LandingError: The files could not be written or read back.
    """
    if adopts:
        yield {landing.link.attempt: staged_rows(landing) for landing in landings}
        return
    files: dict[str, RowFile | None] = {landing.link.attempt: None for landing in landings if landing.staged is None}
    staged = [landing for landing in landings if landing.staged is not None]
    frames = zip(staged, map(conform, shape.frames(spark, staged) if staged else ()), strict=True)
    writable = [(landing, frame) for landing, frame in frames if frame is not None]
    try:
        landed, rows = [landing for landing, _ in writable], [frame for _, frame in writable]
        into = [f"{rows_directory(store)}/{landing.link.attempt}" for landing in landed]
        write_each(spark, store, into, rows, settings=_SETTINGS)
        require_all_read(spark, landed)
        for (landing, frame), directory in zip(writable, into, strict=True):
            files[landing.link.attempt] = _only_file(store, directory, frame.schema.jsonValue())
        yield files
    finally:
        for landing, _ in writable:
            row_file = files.get(landing.link.attempt)
            if row_file is None or not (row_file.is_in_table and store.moves_by_copy):
                with suppress(OSError):  # a sweep removes them later
                    store.remove(f"{rows_directory(store)}/{landing.link.attempt}")


def staged_rows(landing: Landing) -> RowFile | None:
    """Return the staged file of an attempt as its rows; None if it has none."""
    import pyarrow.parquet as pq

    if landing.staged is None:
        return None
    path = landing.staged.path
    return RowFile(path, record_columns(), pq.read_metadata(path), path.stat().st_size)


def _only_file(store: Store, directory: str, columns: Columns) -> RowFile | None:
    """Return the only file of an attempt; None if no file has rows. Spark may write an empty file.

    Raises:
        LandingError: The files cannot be read, or there are several.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:  # of several attempts in one job, those without rows have no directory
        names = [name for name in store.names(directory) if name.endswith(".parquet")]
        found = [(name, pq.read_metadata(store.open(name)), store.measure(name)) for name in names]
    except (OSError, pa.ArrowInvalid) as error:
        raise MissingFilesError(f"the files that Spark wrote into {directory} cannot be read: {error}") from error
    files = [
        RowFile(name, columns, footer, stored.size_bytes)
        for name, footer, stored in found
        if stored and footer.num_rows
    ]
    if len(files) > 1:
        raise LandingError(f"{directory} has {len(files)} files of one attempt, which must have one: {files}")
    return files[0] if files else None
