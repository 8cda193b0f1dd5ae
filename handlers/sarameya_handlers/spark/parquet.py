"""A directory of Parquet files as a `Table`.

    landing/orders/
        part-orders-0-<from>-<to>-<attempt>.parquet     one file a landing
        _sarameya/staging/<attempt>.parquet             on its way into Spark
        _sarameya/landing/<attempt>/                    being written by Spark

Spark never writes into the directory itself: writers that append to one directory share Spark's
`_temporary/0` there, and whoever commits first deletes the others' files. Each attempt is written to a
directory of its own instead, as one file, and becomes visible by one rename. What a killed process leaves is
below `_sarameya`, which Spark, pyarrow and Hive take for hidden, and is removed a day later.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sarameya import ConfigError, HandlerError
from sarameya_handlers.spark.table import Checkpoint, Landing, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger("sarameya.spark")

_TOPIC_IN_NAME = 100
"""A topic may have 249 characters, a file name 255; the attempt alone makes the name unique."""


LEFTOVER_AGE = 24 * 3600.0
"""Seconds after which what lies below `_sarameya` unchanged is taken for a killed process's: no landing is so slow."""


class ParquetTable(Table):
    """Lands in a directory of the local (or a mounted) file system, which is made if it is not there.

    An append is atomic and durable. Two members that own a partition one after the other may both land a
    record: loss is excluded, duplicates are not.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = os.fspath(path)
        if not isinstance(text, str) or not text:
            raise ConfigError("path", path, "must be the name of a directory")
        if "://" in text:
            raise ConfigError("path", text, "must be a directory of a local or mounted file system, not a URL")
        if set(text) & set("*?[]{}\\"):
            raise ConfigError("path", text, "must have none of * ? [ ] { } \\, which Spark reads as patterns")
        self._root = Path(text).absolute()

    def __repr__(self) -> str:
        return f"ParquetTable({str(self._root)!r})"

    @property
    def path(self) -> Path:
        """Where readers look: `spark.read.parquet(str(table.path))`."""
        return self._root

    @property
    def staging(self) -> Path:
        return self._root / "_sarameya" / "staging"

    @property
    def _writing(self) -> Path:
        return self._root / "_sarameya" / "landing"

    def open(self) -> None:
        """Make the directory ready, and remove what killed processes left there more than a day ago (LEFTOVER_AGE)."""
        try:
            self.staging.mkdir(parents=True, exist_ok=True)
            self._writing.mkdir(exist_ok=True)
            for directory in (self.staging, self._writing, self._root):
                with tempfile.TemporaryFile(dir=directory, prefix="_"):
                    pass
        except OSError as error:
            raise HandlerError(
                f"cannot land in {self._root}: {error.strerror or error}"
                f"{f' ({error.filename})' if error.filename else ''}; "
                "choose a directory that this user may write to"
            ) from error
        for directory in (self.staging, self._writing):
            _remove_leftovers(directory, before=time.time() - LEFTOVER_AGE)

    def append(self, landing: Landing, frame: DataFrame, checkpoint: Checkpoint) -> int:
        directory = self._writing / landing.attempt
        try:
            # One task, so one file: several could not become visible at once.
            frame.coalesce(1).write.option("maxRecordsPerFile", 0).parquet(spark_path(directory))
            (written,) = directory.glob("part-*.parquet")
            rows = _row_count(written)
            if rows:
                _sync(written)
                checkpoint()
                written.rename(self._root / _file_name(landing))
                _sync(self._root)
            return rows
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def spark_path(path: Path) -> str:
    """A local path as Spark reads it, also where its default file system is another (Hadoop decodes no %-escapes)."""
    return f"file://{path}"


def _file_name(landing: Landing) -> str:
    topic, partition = landing.partition
    span = f"{landing.from_offset:020}-{landing.to_offset:020}"
    return f"part-{topic[:_TOPIC_IN_NAME]}-{partition}-{span}-{landing.attempt}.parquet"


def _remove_leftovers(directory: Path, before: float) -> None:
    """Remove what has not changed since `before`, Unix time. Others may be at it too, or forbid it: then it stays."""
    for path in directory.iterdir():
        with suppress(OSError):
            if path.stat().st_mtime >= before:
                continue
            logger.info("%s is left of a landing that never ended, and is removed", path)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _row_count(file: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(file).num_rows)


def _sync(path: Path) -> None:
    """Bring a file's bytes, or a directory's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
