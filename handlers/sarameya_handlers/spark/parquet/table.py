"""A directory of Parquet files as a `Table`: chains are manifests, each put only if it is absent.

    landing/orders/
        part-orders-0-<from>-<to>-<attempt>.parquet     published rows, which readers see
        event_date=2026-11-22/part-...                  if the table is partitioned
        _sarameya/links/...                             the chains (landing/directory/manifests.py)
        _sarameya/schemas/...                           the columns of the rows (schema.py)
        _sarameya/staging/<attempt>.parquet             staged records, for Spark to read
        _sarameya/landing/<attempt>/...                 written rows; they belong to a link once its manifest exists

A link's manifest names its files. They are written into a hidden directory, synced to disk, and moved to their final
names once the manifest exists: by its writer, or by the chain's next owner, which does this first
(landing/directory/data_files.py). So a reader of the plain directory sees only rows of links, but for a moment perhaps
not all rows of the last link; `read_landing` sees all rows of a link at once.

Spark never writes into the directory itself: writers that append to one directory share Spark's `_temporary/0` there,
and the first to commit deletes the others' files. Spark, pyarrow and Hive ignore everything below `_sarameya`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from sarameya import ConfigError, HandlerError
from sarameya_handlers.landing.directory.data_files import DataFiles, Unpublished
from sarameya_handlers.landing.directory.manifests import DataFile, Manifest
from sarameya_handlers.landing.files import UnansweredError, names_are_given_once
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.errors import LandingError, directory_error
from sarameya_handlers.spark.parquet import file_writer, leftovers
from sarameya_handlers.spark.parquet.reader import batches, read_landing
from sarameya_handlers.spark.parquet.schema import DirectorySchema, WriteSchema
from sarameya_handlers.spark.shaping.partitions import directory_rules
from sarameya_handlers.spark.tables.evaluation import Evaluate, compute_all, with_checks
from sarameya_handlers.spark.tables.file_visibility import check_reads, check_writes
from sarameya_handlers.spark.tables.one_job import MAX_TOGETHER
from sarameya_handlers.spark.tables.staged_files import require_all_read
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Layout, Leftover, Phase, Shape, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class ParquetTable(Table):
    """Lands in a directory of a local or mounted file system, and creates it if it does not exist.

    Exactly once on a file system whose `link(2)` is atomic and fails if the name exists: local file systems, and NFS.
    Object stores that are mounted as a file system have no such call: use Delta or Iceberg there.

    Args:
        path: The directory.
        layout: Partitioning and schema evolution.
    """

    landings_per_job = MAX_TOGETHER
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
        if hidden := [column for column in self._layout.partition_by if column.startswith(("_", "."))]:
            raise ConfigError(
                "partition_by", hidden, "must not begin with _ or .: plain readers ignore such directories"
            )
        self._files = DataFiles(self._root)
        self._manifests = self._files.manifests
        self._schema = DirectorySchema(self._files, self.name, self._layout)
        self._is_prepared = False
        """True if this process lands here. Then it publishes files of dead members, too. An audit only reads."""

    def __repr__(self) -> str:
        return f"ParquetTable({str(self._root)!r})"

    @property
    def name(self) -> str:
        return f"parquet:{self._root}"

    @property
    def path(self) -> Path:
        """Directory for readers: `read_landing(spark, table.path)`, or `spark.read.parquet(str(table.path))`."""
        return self._root

    @property
    def staging(self) -> Path:
        return self._files.hidden / "staging"

    def adopts(self, shape: Shape) -> bool:
        return shape.is_plain and not self._layout.partition_by

    def prepare(self) -> None:
        """Make the directory, and check that records can land in it exactly once.

        Raises:
            HandlerError: Records cannot land in this directory.
            LandingError: Records cannot land in it now, which may pass.
        """
        with self._directory_errors():
            for directory in (self.staging, self._files.writing, self._files.hidden / "links"):
                directory.mkdir(parents=True, exist_ok=True)
            if not names_are_given_once(self._files.writing):
                raise HandlerError(
                    f"a name in {self._root} could be taken twice: link(2) of its file system does not fail if the "
                    "name exists, so records would not land exactly once; choose a local file system, or NFS, or land "
                    "as Delta or Iceberg"
                )
            with tempfile.TemporaryFile(dir=self._root, prefix="_"):
                pass
        self._is_prepared = True

    def open(self, spark: SparkSession) -> None:
        self.prepare()
        self.recover()
        check_reads(spark, self.staging)
        check_writes(spark, self._files.writing)

    @contextmanager
    def _directory_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            remedy = "choose a directory that this user may write to, of a file system with hard links"
            raise directory_error(f"cannot land in {self._root}", error, remedy) from error

    def heads(self, spark: SparkSession, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        heads = {key: self._manifests.head(key) for key in keys}
        return {key: self._published(manifest) for key, manifest in heads.items() if manifest is not None}

    def links(self, spark: SparkSession, key: ChainKey, since: int) -> Sequence[Link]:
        return [self._published(manifest) for manifest in self._manifests.since(key, since)]

    def land(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        untried = list(landings)
        try:
            schema = self._write(spark, [landing for landing in landings if landing.staged], shape)
            files = {
                landing.link.attempt: file_writer.sync_files(self._files, landing, self._layout) for landing in landings
            }
            if shape.is_plain:
                for landing in landings:
                    file_writer.check_rows(landing, files[landing.link.attempt])
            checkpoint(Phase.WRITTEN, landings)
            if schema is not None and any(files.values()):
                self._schema.put(schema)
            while untried:
                manifest = self._manifest(untried[0], files[untried[0].link.attempt])
                untried.pop(0)
                self._link(manifest)
        finally:
            for landing in untried:
                self._files.forget(landing.link.attempt)

    def evaluator(self, spark: SparkSession) -> Evaluate:
        return lambda frame: compute_all(
            with_checks(frame, list(directory_rules(frame.schema, self._layout.partition_by)))
        )

    def unpublished(self, spark: SparkSession) -> Sequence[Unpublished]:
        return list(self._files.unpublished())

    def recover(self, spark: SparkSession | None = None) -> None:
        with self._directory_errors():
            self._files.publish_all()

    def keys(self, spark: SparkSession) -> Sequence[ChainKey]:
        return list(self._manifests.chains())

    def read(self, spark: SparkSession, version: str | None = None) -> DataFrame:
        if version is not None:
            raise HandlerError(f"{self.name} keeps no versions: restore its directory from a backup instead")
        return read_landing(spark, self._root)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return batches(self._files, columns)

    def heads_at(self, spark: SparkSession, version: str) -> dict[ChainKey, Link]:
        raise HandlerError(
            f"{self.name} keeps no versions: restore its directory from a backup, then match the group to it by "
            "sarameya rewind --to-head"
        )

    def leftovers(self, spark: SparkSession) -> Sequence[Leftover]:
        return leftovers.leftovers(self._files, self.staging)

    def remove(self, spark: SparkSession, leftover: Leftover) -> None:
        leftovers.remove(self._files, leftover)

    # -- writing -------------------------------------------------------------------------------------

    def _write(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape) -> WriteSchema | None:
        """Write the rows of these attempts to files. Return the schema of the rows; None without attempts."""
        if not landings:
            return None
        if self.adopts(shape) and (schema := self._schema.match_staged(landings[0])) is not None:
            for landing in landings:
                file_writer.adopt(self._files, landing)
            return schema
        schema = file_writer.write(spark, self._files, landings, shape, self._layout, self._schema)
        require_all_read(spark, landings)
        return schema

    def _manifest(self, landing: Landing, files: tuple[DataFile, ...]) -> Manifest:
        rows, size = sum(file.rows for file in files), sum(file.size for file in files)
        return Manifest(attrs.evolve(landing.link, rows=rows, size_bytes=size), files)

    def _link(self, manifest: Manifest) -> None:
        """Put a manifest and publish its files. Delete the files only if the chain is known not to name them.

        Raises:
            UnansweredError: The manifest may exist, or appear later. A member that finds it publishes its files.
            LandingError: A sweep removed the files as abandoned.
            OSError: The manifest was refused, or its files are not all published yet.
        """
        link = manifest.link
        refusal: OSError | None = None
        try:
            self._manifests.put(manifest, lambda: self._files.require(link.attempt, manifest.files))
        except UnansweredError:
            raise
        except OSError as error:
            refusal = error
        # The manifest that exists decides, not the call's result: a request that was sent twice fails the second time.
        winner = self._manifests.get(link.key, link.number)
        if winner is not None and winner.link.attempt == link.attempt:
            self._files.publish_link(winner)
        elif winner is not None or refusal is not None:
            self._files.forget(link.attempt)
        if isinstance(refusal, FileNotFoundError):
            raise LandingError(
                f"{link}: a sweep removed its files while its process slept; it lands again"
            ) from refusal
        if refusal is not None:
            raise refusal

    def _published(self, manifest: Manifest) -> Link:
        """Return a manifest's link. Publish its files first, if this process lands here."""
        if self._is_prepared:
            self._manifests.sync(manifest.link)
            self._files.publish_link(manifest)
        return manifest.link
