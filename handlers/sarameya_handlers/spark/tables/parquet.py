"""A directory of Parquet files as a `Table`: chains are manifests, put only where there is none.

    landing/orders/
        part-orders-0-<from>-<to>-<attempt>.parquet     what readers see
        event_date=2026-11-22/part-...                  where it is partitioned by columns
        _sarameya/links/...                             the chains (landing/manifests.py)
        _sarameya/staging/<attempt>.parquet             on its way into Spark
        _sarameya/landing/<attempt>/...                 written; the rows of a link once its manifest is there

A link's manifest names its files. They are written out of sight, brought to the disk, and given their final names once
the manifest is there: by whoever put it, or by the chain's next owner, who begins with that (landing/data_files.py). So
a reader of the plain directory sees rows of links only, of the last one perhaps not all for a moment; `read_landing`
sees them all at once.

Spark never writes into the directory itself: writers that append to one directory share Spark's `_temporary/0` there,
and whoever commits first deletes the others' files. What is below `_sarameya` Spark, pyarrow and Hive take for hidden.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import groupby
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING

import attrs

from sarameya import ConfigError, HandlerError
from sarameya_handlers.landing.data_files import DataFiles
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.landing.manifests import DataFile, Manifest
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.reach import check_reads, check_writes
from sarameya_handlers.spark.tables.settings import changed
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Layout, Leftover, Phase, Shape, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

_TOPIC_IN_NAME = 100
"""A topic may have 249 characters, a file name 255; the attempt alone makes the name unique."""
_ATTEMPT = "_sarameya_attempt"
"""The column by which one job writes each landing's rows into a directory of its own."""
_WITHOUT_SORTING = {"spark.sql.maxConcurrentOutputFileWriters": "8"}
"""Else Spark sorts each task's rows by that column, though they all have the same, for a third of the time."""


class ParquetTable(Table):
    """Lands in a directory of the local (or a mounted) file system, which is made if it is not there.

    Exactly once, on a file system whose `link(2)` is atomic and fails where the name is taken: local ones, and NFS.
    Object stores have no such thing behind a path: land there as Delta or Iceberg.
    """

    landings_a_job = 32
    needs_spark = False

    def __init__(self, path: str | os.PathLike[str], *, layout: Layout | None = None) -> None:
        text = os.fspath(path)
        if not isinstance(text, str) or not text:
            raise ConfigError("path", path, "must be the name of a directory")
        if "://" in text:
            raise ConfigError("path", text, "must be a directory of a local or mounted file system, not a URL")
        if set(text) & set("*?[]{}\\"):
            raise ConfigError("path", text, "must have none of * ? [ ] { } \\, which Spark reads as patterns")
        self._root = Path(text).absolute()
        self._layout = layout or Layout()
        self._files = DataFiles(self._root)
        self._manifests = self._files.manifests

    def __repr__(self) -> str:
        return f"ParquetTable({str(self._root)!r})"

    @property
    def name(self) -> str:
        return f"parquet:{self._root}"

    @property
    def path(self) -> Path:
        """Where readers look: `read_landing(spark, table.path)`, or `spark.read.parquet(str(table.path))`."""
        return self._root

    @property
    def staging(self) -> Path:
        return self._files.hidden / "staging"

    def adopts(self, shape: Shape) -> bool:
        return shape.is_plain and not self._layout.partition_by

    def open(self, spark: SparkSession) -> None:
        """Make the directory ready, and find out whether it can be landed in exactly once."""
        try:
            for directory in (self.staging, self._files.writing, self._files.hidden / "links"):
                directory.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._files.writing, prefix="probe-") as probe:
                beside = f"{probe.name}-linked"
                os.link(probe.name, beside)
                os.unlink(beside)
            with tempfile.TemporaryFile(dir=self._root, prefix="_"):
                pass
            self._files.publish_all()
        except OSError as error:
            raise HandlerError(
                f"cannot land in {self._root}: {error.strerror or error}"
                f"{f' ({error.filename})' if error.filename else ''}; choose a directory that this user may write to, "
                "of a file system with hard links"
            ) from error
        check_reads(spark, self.staging)
        check_writes(spark, self._files.writing)

    def heads(self, spark: SparkSession, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        heads = {key: self._manifests.head(key) for key in keys}
        return {key: self._files.publish_link(manifest).link for key, manifest in heads.items() if manifest is not None}

    def links(self, spark: SparkSession, key: ChainKey, since: int) -> Sequence[Link]:
        return [self._files.publish_link(manifest).link for manifest in self._manifests.since(key, since)]

    def land(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        try:
            if self.adopts(shape):
                for landing in landings:
                    self._adopt(landing)
            else:
                self._write(spark, [landing for landing in landings if landing.staged], shape)
            files = {landing.link.attempt: self._settle(landing) for landing in landings}
            if shape.is_plain:
                for landing in landings:
                    _check_rows(landing, files[landing.link.attempt])
            checkpoint(Phase.WRITTEN, landings)
            for landing in landings:
                self._link(landing, files[landing.link.attempt])
        finally:
            for landing in landings:
                self._forget(landing)

    def keys(self, spark: SparkSession) -> Sequence[ChainKey]:
        return list(self._manifests.chains())

    def read(self, spark: SparkSession, version: str | None = None) -> DataFrame:
        if version is not None:
            raise HandlerError(f"{self.name} keeps no versions: restore its directory from a backup instead")
        return read_landing(spark, self._root)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Files that no link names are among them: readers of the plain directory see those, too."""
        import pyarrow.parquet as pq

        # In this order: a file that is published meanwhile is found in one place or in the other, and counted once.
        visible = [path.relative_to(self._root) for path in self._root.rglob("*.parquet")]
        places = {str(path): self._root / path for path in visible if not _is_hidden(path)}
        places |= {file.name: place for file, place in self._files.live()}
        for name, place in sorted(places.items()):
            try:
                file = pq.ParquetFile(place)
            except FileNotFoundError:
                file = pq.ParquetFile(self._root / name)
            with file:
                names = [column for column in columns if column in file.schema_arrow.names]
                yield from file.iter_batches(columns=names)

    def heads_at(self, spark: SparkSession, version: str) -> dict[ChainKey, Link]:
        raise HandlerError(
            f"{self.name} keeps no versions: restore its directory from a backup, then match the group to it by "
            "sarameya rewind --to-head"
        )

    def leftovers(self, spark: SparkSession) -> Sequence[Leftover]:
        if not self._files.hidden.exists():
            return []
        # Of those that are linked only a head may still be here: whoever appends the next one publishes it first.
        linked = {head.link.attempt for key in self._manifests.chains() if (head := self._manifests.head(key))}
        linked |= {compaction.attempt for compaction in self._files.compactions.all()}
        found = [
            *((path, "a staged file") for path in self.staging.iterdir()),
            *(
                (path, "data of a landing that has not won")
                for path in self._files.writing.iterdir()
                if path.name not in linked
            ),
            *((path, "a manifest that was not put") for path in self._manifests.unfinished()),
            *((path, f"what compaction {path.name} has replaced") for path in self._files.replaced.glob("*")),
        ]
        return [leftover for path, what in found if (leftover := _leftover(path, what)) is not None]

    def remove(self, spark: SparkSession, leftover: Leftover) -> None:
        path = Path(leftover.name)
        if self._files.hidden not in path.parents:
            raise HandlerError(f"{path} is no leftover of {self.name}")
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    # -- writing -------------------------------------------------------------------------------------

    def _adopt(self, landing: Landing) -> None:
        """The staged file becomes the link's."""
        if landing.staged:
            directory = self._files.directory(landing.link.attempt)
            directory.mkdir()
            landing.staged.rename(directory / "part-0.parquet")

    def _write(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape) -> None:
        """One job, one file a landing (and a partition of the table): several tasks of one could not be told apart."""
        for _, those in groupby(sorted(landings, key=_topic), key=_topic):
            of_topic = list(those)
            frames = [frame.coalesce(1) for frame in shape.frames(spark, of_topic)]
            if len(of_topic) == 1:
                directory = self._files.directory(of_topic[0].link.attempt)
                _writer(frames[0], self._layout.partition_by).parquet(spark_path(directory))
            else:
                self._write_together(spark, of_topic, frames)

    def _write_together(self, spark: SparkSession, landings: Sequence[Landing], frames: Sequence[DataFrame]) -> None:
        from pyspark.sql.functions import lit

        attempts = [landing.link.attempt for landing in landings]
        marked = [frame.withColumn(_ATTEMPT, lit(attempt)) for frame, attempt in zip(frames, attempts, strict=True)]
        together = self._files.writing / f"{attempts[0]}-and-others"
        try:
            union = reduce(lambda one, other: one.union(other), marked)
            with changed(spark, _WITHOUT_SORTING):
                _writer(union, (_ATTEMPT, *self._layout.partition_by)).parquet(spark_path(together))
            for attempt in attempts:
                written = together / f"{_ATTEMPT}={attempt}"
                if written.exists():
                    written.rename(self._files.directory(attempt))
        finally:
            shutil.rmtree(together, ignore_errors=True)

    def _settle(self, landing: Landing) -> tuple[DataFile, ...]:
        """What was written of a landing, brought to the disk."""
        files = self._files.settle(landing.link.attempt, partial(_file_name, landing.link), _row_count)
        if len({Path(file.name).parent for file in files}) > self._layout.max_partitions:
            raise LandingError(
                f"{landing} has rows of more than {self._layout.max_partitions} partitions of the table: "
                "partition it more coarsely, or allow more (max_partitions)"
            )
        return files

    def _link(self, landing: Landing, files: tuple[DataFile, ...]) -> None:
        rows, size = sum(file.rows for file in files), sum(file.size for file in files)
        manifest = Manifest(attrs.evolve(landing.link, rows=rows, size_bytes=size), files)
        if not all((self._files.directory(landing.link.attempt) / file.name).exists() for file in files):
            raise LandingError(f"{landing}: what was written of it was swept away while it slept")
        if self._manifests.put(manifest):
            self._files.publish_link(manifest)

    def _forget(self, landing: Landing) -> None:
        """Remove what was written, unless a manifest names it: then it is no longer ours."""
        manifest = self._manifests.get(landing.link.key, landing.link.number)
        if manifest is not None and manifest.link.attempt == landing.link.attempt:
            self._files.publish_link(manifest)
        else:
            self._files.forget(landing.link.attempt)


def read_landing(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    """The rows of a directory that a `ParquetTable` has landed in: those of links, each link's whole or not at all.

    Raises HandlerError where nothing has landed.
    """
    root = Path(os.fspath(path)).absolute()
    files = [place for _, place in DataFiles(root).live()]
    if not files:
        raise HandlerError(f"nothing has landed in {root}")
    return spark.read.option("basePath", spark_path(root)).parquet(*map(spark_path, files))


def _is_hidden(path: Path) -> bool:
    """Whether readers of the plain directory pass over this path below it."""
    return any(part.startswith(("_", ".")) for part in path.parts)


def spark_path(path: Path) -> str:
    """A local path as Spark reads it, also where its default file system is another (Hadoop decodes no %-escapes)."""
    return f"file://{path}"


def _topic(landing: Landing) -> str:
    return landing.link.key.topic


def _writer(frame: DataFrame, partition_by: tuple[str, ...]) -> DataFrameWriter:
    writer = frame.write.option("maxRecordsPerFile", 0)
    return writer.partitionBy(*partition_by) if partition_by else writer


def _file_name(link: Link, number: int) -> str:
    span = f"{link.from_offset:020}-{link.to_offset:020}"
    which = f"-{number}" if number else ""
    return f"part-{link.key.topic[:_TOPIC_IN_NAME]}-{link.key.partition}-{span}-{link.attempt}{which}.parquet"


def _check_rows(landing: Landing, files: Iterable[DataFile]) -> None:
    if (rows := sum(file.rows for file in files)) != landing.records:
        raise LandingError(f"{landing}: {rows} rows were written of {landing.records} records")


def _leftover(path: Path, what: str) -> Leftover | None:
    """None if it is gone already."""
    try:
        inside = [file.stat() for file in (path, *path.rglob("*"))]
    except FileNotFoundError:
        return None
    size = sum(stat.st_size for stat in inside if not S_ISDIR(stat.st_mode))
    return Leftover(name=str(path), size_bytes=size, changed=max(stat.st_mtime for stat in inside), what=what)


def _row_count(file: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(file).num_rows)
