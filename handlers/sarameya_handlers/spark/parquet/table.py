"""A directory of Parquet files as a `Table`: chains are manifests, each put only if it is absent.

    landing/orders/
        part-orders-0-<from>-<to>-<attempt>.parquet     published rows, which readers see
        event_date=2026-11-22/part-...                  if the table is partitioned
        _sarameya/links/...                             the chains (landing/directory/manifests.py)
        _sarameya/schemas/...                           the columns of the rows (schema.py)
        _sarameya/staging/<attempt>.parquet             staged records, for Spark to read
        _sarameya/landing/<attempt>/...                 written rows; they belong to a link once its manifest exists

A link's manifest names its files. They are written into a hidden directory, made durable, and moved to their final
names once the manifest exists: by its writer, or by the chain's next owner, which does this first
(landing/directory/data_files.py). So a reader of the plain directory sees only rows of links, but for a moment perhaps
not all rows of the last link; `read_landing` sees all rows of a link at once. The directory is on a file system, or in
an object store (landing/stores).

Spark never writes into the directory itself: writers that append to one directory share Spark's `_temporary/0` there,
and the first to commit deletes the others' files. Spark, pyarrow and Hive ignore everything below `_sarameya`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from sarameya import ConfigError, HandlerError, StoreUsed
from sarameya_handlers.landing.directory.data_files import WRITING, DataFiles, Unpublished
from sarameya_handlers.landing.directory.manifests import HIDDEN, DataFile, Manifest
from sarameya_handlers.landing.errors import UnansweredError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.landing.stores.options import StoreOptions
from sarameya_handlers.landing.stores.places import store_at
from sarameya_handlers.spark.errors import LandingError, directory_error
from sarameya_handlers.spark.parquet import file_writer, leftovers
from sarameya_handlers.spark.parquet.reader import batches, read_on
from sarameya_handlers.spark.parquet.schema import DirectorySchema, WriteSchema
from sarameya_handlers.spark.shaping.partitions import directory_rules
from sarameya_handlers.spark.tables.evaluation import Evaluate, compute_all, with_checks
from sarameya_handlers.spark.tables.file_visibility import check_writes
from sarameya_handlers.spark.tables.one_job import MAX_TOGETHER
from sarameya_handlers.spark.tables.staged_records import require_all_read
from sarameya_handlers.spark.tables.staging import STAGING, Staging
from sarameya_handlers.spark.tables.store_checks import (
    require_names_once,
    require_trust,
)
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Layout, Leftover, Phase, Shape, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class ParquetTable(Table):
    """Lands in a directory, or below a URL of an object store. A directory is created if it does not exist.

    Exactly once on a file system whose `link(2)` is atomic and fails if the name exists: local file systems, and NFS;
    and in object stores that put an object only if none has its name (S3, Google Cloud Storage). Object stores that are
    mounted as a file system have neither.

    Args:
        path: The directory, or a URL: `s3://bucket/orders`, `gs://bucket/orders`.
        layout: Partitioning and schema evolution.
        store: How to reach an object store.
        staging: For an object store: where Spark reads records, a directory that all of its machines have mounted, or a
            URL of an object store. By default a temporary directory; if Spark runs on other machines, below the table.
    """

    landings_per_job = MAX_TOGETHER
    needs_spark = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        layout: Layout | None = None,
        store: StoreOptions | None = None,
        staging: str | os.PathLike[str] | None = None,
    ) -> None:
        self.store = store_at(path, store)
        if set(self.store.place) & set("*?[]{}\\"):
            raise ConfigError("path", path, "must have none of * ? [ ] { } \\, which Spark reads as patterns")
        if isinstance(self.store, LocalStore):
            if staging is not None:
                raise ConfigError("staging", staging, "is for object stores: a directory has its own")
            self._staging = Staging(self.store.path(STAGING))
        elif staging is not None:
            self._staging = Staging.at(staging, options=store)
        else:
            self._staging = Staging.temporary("", self.store, STAGING)
        self._layout = layout or Layout()
        if hidden := [column for column in self._layout.partition_by if column.startswith(("_", "."))]:
            raise ConfigError(
                "partition_by", hidden, "must not begin with _ or .: plain readers ignore such directories"
            )
        self._files = DataFiles(self.store)
        self._manifests = self._files.manifests
        self._schema = DirectorySchema(self._files, self.name, self._layout)
        self._is_writable = False
        """True if Spark is known to write here."""
        self._is_prepared = False
        """True if this process lands here. Then it publishes files of dead members, too. An audit only reads."""

    def __repr__(self) -> str:
        return f"ParquetTable({self.store.place!r})"

    @property
    def name(self) -> str:
        return f"parquet:{self.store.place}"

    @property
    def path(self) -> Path:
        """Directory for readers: `read_landing(spark, table.path)`, or `spark.read.parquet(str(table.path))`.

        Raises:
            HandlerError: The table is in an object store. Readers get its URL.
        """
        if isinstance(self.store, LocalStore):
            return self.store.root
        raise HandlerError(f"{self.name} is no directory: give readers its URL")

    @property
    def staging(self) -> Staging:
        return self._staging

    def take_requests(self) -> StoreUsed | None:
        return self.store.usage.take(self.name)

    def adopts(self, shape: Shape) -> bool:
        return shape.is_plain and not self._layout.partition_by

    def prepare(self) -> None:
        """Make the directory, and check that records can land in it exactly once.

        Raises:
            HandlerError: Records cannot land in this directory.
            LandingError: Records cannot land in it now, which may pass.
        """
        require_trust(self.name, self.store)
        self._prepare()

    def _prepare(self) -> None:
        with self._directory_errors():
            self.staging.make()
            self.store.prepare([WRITING, f"{HIDDEN}/links"])
            require_names_once(self.store, WRITING)
        self._is_prepared = True

    def open(self, spark: SparkSession) -> None:
        self.prepare()
        self.recover()
        self.staging.open(spark)
        if isinstance(self.store, LocalStore):
            self._check_writes(spark)

    def open_unstaged(self, spark: SparkSession) -> None:
        # Without the question of trust: a sink has answered it when it began the chains.
        self._prepare()
        self.recover()

    def _check_writes(self, spark: SparkSession) -> None:
        """Check that Spark can write here. Later for an object store: staged files may become the table's unchanged."""
        if not self._is_writable:
            check_writes(spark, self.store, WRITING)
            self._is_writable = True

    @contextmanager
    def _directory_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(self.store, LocalStore):
                remedy, check = (
                    "choose a directory that this user may write to, on a file system with hard links",
                    "disk",
                )
            else:
                remedy = "check the URL, the option `store`, the credentials, and their permissions"
                check = "store"
            raise directory_error(f"cannot land in {self.store.place}", error, remedy, check) from error

    def heads(self, spark: SparkSession, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        heads = {key: self._manifests.head(key) for key in keys}
        return {key: self._published(manifest) for key, manifest in heads.items() if manifest is not None}

    def links(self, spark: SparkSession, key: ChainKey, since: int) -> Sequence[Link]:
        return [self._published(manifest) for manifest in self._manifests.since(key, since)]

    def land(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        untried = list(landings)
        try:
            schema, files = self._write(spark, [landing for landing in landings if landing.staged], shape)
            checkpoint(Phase.WRITTEN, landings)
            if schema is not None and any(files.values()):
                self._schema.put(schema)
            while untried:
                manifest = self._manifest(untried[0], files.get(untried[0].link.attempt, ()))
                untried.pop(0)
                self._link(manifest)
        finally:
            for landing in untried:
                self._files.forget(landing.link)

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
        return read_on(spark, self.store)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return batches(self._files, columns)

    def heads_at(self, spark: SparkSession, version: str) -> dict[ChainKey, Link]:
        raise HandlerError(
            f"{self.name} keeps no versions: restore its directory from a backup, then match the group to it by "
            "sarameya rewind --to-head"
        )

    def leftovers(self, spark: SparkSession) -> Sequence[Leftover]:
        return [*self.staging.leftovers(), *leftovers.leftovers(self._files)]

    def remove(self, spark: SparkSession, leftover: Leftover) -> None:
        if not self.staging.remove(leftover):
            leftovers.remove(self._files, leftover)

    # -- writing -------------------------------------------------------------------------------------

    def _write(
        self, spark: SparkSession, landings: Sequence[Landing], shape: Shape
    ) -> tuple[WriteSchema | None, dict[str, tuple[DataFile, ...]]]:
        """Write the rows of these attempts to files. Return their schema (None without attempts), and files."""
        if not landings:
            return None, {}
        if self.adopts(shape) and (schema := self._schema.match_staged(landings[0])) is not None:
            return schema, {landing.link.attempt: (file_writer.adopt(self.store, landing),) for landing in landings}
        self._check_writes(spark)
        schema = file_writer.write(spark, self.store, landings, shape, self._layout, self._schema)
        require_all_read(spark, landings)
        files = {landing.link.attempt: file_writer.settle(self._files, landing, self._layout) for landing in landings}
        if shape.is_plain:
            for landing in landings:
                file_writer.check_rows(landing, files[landing.link.attempt])
        return schema, files

    def _manifest(self, landing: Landing, files: tuple[DataFile, ...]) -> Manifest:
        rows, size = sum(file.rows for file in files), sum(file.size for file in files)
        return Manifest(attrs.evolve(landing.link, rows=rows, size_bytes=size), files)

    def _link(self, manifest: Manifest) -> None:
        """Put a manifest and publish its files. Delete the files only if the chain is known not to name them.

        Raises:
            UnansweredError: The manifest may exist, or appear later. A member that finds it publishes its files.
            LandingError: A sweep removed the unfinished manifest as abandoned.
            OSError: The manifest was refused, or its files are not all published yet.
        """
        link = manifest.link
        is_put, refusal = False, None
        try:
            is_put = self._manifests.put(manifest)
        except UnansweredError:
            raise
        except OSError as error:
            refusal = error
        if is_put:
            self._files.publish_link(manifest, is_new=True)
            return
        # The manifest that exists decides, not the call's result: a request that was sent twice fails the second time.
        winner = self._manifests.get(link.key, link.number)
        if winner is not None and winner.link.attempt == link.attempt:
            self._files.publish_link(winner)
        elif winner is not None or refusal is not None:
            self._files.forget(link)
        if isinstance(refusal, FileNotFoundError):
            raise LandingError(
                f"{link}: a sweep removed its manifest while its process slept; it lands again"
            ) from refusal
        if refusal is not None:
            raise refusal

    def _published(self, manifest: Manifest) -> Link:
        """Return a manifest's link. Publish its files first, if this process lands here."""
        if self._is_prepared:
            self._manifests.sync(manifest.link)
            self._files.publish_link(manifest)
        return manifest.link
