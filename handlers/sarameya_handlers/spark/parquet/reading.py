"""The rows of a landed directory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sarameya import HandlerError
from sarameya_handlers.landing.data_files import DataFiles

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def read_landing(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    """The rows of a directory that a `ParquetTable` has landed in: those of links, each link's whole or not at all.

    Raises HandlerError where nothing has landed.
    """
    root = Path(os.fspath(path)).absolute()
    files = [place for _, place in DataFiles(root).live()]
    if not files:
        raise HandlerError(f"nothing has landed in {root}")
    return spark.read.option("basePath", spark_path(root)).parquet(*map(spark_path, files))


def batches(files: DataFiles, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Files that no link names are among them: readers of the plain directory see those, too."""
    import pyarrow.parquet as pq

    # In this order: a file that is published meanwhile is found in one place or in the other, and counted once.
    visible = [path.relative_to(files.root) for path in files.root.rglob("*.parquet")]
    places = {str(path): files.root / path for path in visible if not _is_hidden(path)}
    places |= {file.name: place for file, place in files.live()}
    for name, place in sorted(places.items()):
        try:
            file = pq.ParquetFile(place)
        except FileNotFoundError:
            file = pq.ParquetFile(files.root / name)
        with file:
            names = [column for column in columns if column in file.schema_arrow.names]
            yield from file.iter_batches(columns=names)


def spark_path(path: Path) -> str:
    """A local path as Spark reads it, also where its default file system is another (Hadoop decodes no %-escapes)."""
    return f"file://{path}"


def _is_hidden(path: Path) -> bool:
    """Whether readers of the plain directory pass over this path below it."""
    return any(part.startswith(("_", ".")) for part in path.parts)
