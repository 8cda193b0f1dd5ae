"""An Iceberg table as a `Table`: each link is a snapshot that is staged, audited and published.

    append, with the wap id of link n ─► staged snapshot ─► is link n - 1 the chain's newest? ─► cherry-pick ─► main

Everything goes through SQL and DataFrames, so Spark may run in this process or behind Spark Connect. Each attempt is
one Spark job and two commits, since a snapshot has one wap id. `add_files`, which could add a staged file unchanged,
cannot be used: it sets no wap id and commits directly into main.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import attrs

from sarameya import HandlerError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.engines.connect import is_connect
from sarameya_handlers.spark.error_sources import passes
from sarameya_handlers.spark.errors import LandingError, directory_error
from sarameya_handlers.spark.iceberg import leftovers, write_audit_publish
from sarameya_handlers.spark.iceberg.catalog import (
    RESTATED_PER_RETENTION,
    WAP_BRANCH,
    WAP_ENABLED,
    WAP_ID,
    Catalog,
    TableName,
    retention,
    take_driver_lease,
)
from sarameya_handlers.spark.iceberg.marks import ChainMark
from sarameya_handlers.spark.iceberg.schema import partitioning, same_partitioning
from sarameya_handlers.spark.iceberg.table_state import TableState, TableStateReader, exists, refresh
from sarameya_handlers.spark.tables.evaluation import Evaluate, compute_all
from sarameya_handlers.spark.tables.packages import iceberg
from sarameya_handlers.spark.tables.settings import temporary_settings
from sarameya_handlers.spark.tables.staged_records import require_all_read, with_staged_file
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Layout, Leftover, Phase, Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@attrs.define(slots=True)
class _Term:
    """The time in which this process appends to a chain (marks.py)."""

    name: str = attrs.field(factory=lambda: uuid4().hex)
    last_attempt: str = ""
    """The last attempt that this process has tried to publish."""


class IcebergTable(Table):
    """Lands in the table `catalog.db.table`. The first link creates it if it does not exist.

    Exactly once, provided that the catalog's commits are atomic (`open` refuses catalogs known not to be), and that no
    member sleeps between staging and publishing a link for longer than the table keeps its snapshots. Compaction
    (`rewrite_data_files`) may run at any time; `expire_snapshots` too, if it keeps snapshots that are younger than
    `history.expire.max-snapshot-age-ms`.

    Args:
        table: The table's name.
        layout: Partitioning and schema evolution.
        staging: A directory that all of Spark's machines have mounted, or a URL of an object store (`s3://bucket/staging`).
            By default it is below the catalog's warehouse, or a temporary directory of this machine if the warehouse is
            elsewhere.
    """

    landings_per_job = 8
    states_heads = True
    forgets = True

    def __init__(
        self, table: str, *, layout: Layout | None = None, staging: str | os.PathLike[str] | None = None
    ) -> None:
        self._name = TableName.of(table)
        self._layout = layout or Layout()
        self._directory = str(self._name).replace("/", "%2F")  # a quoted name may have any character
        self._staging = Staging.at(staging, self._directory) if staging is not None else None
        self._state_reader = TableStateReader(self._name)
        self._catalog: Catalog | None = None
        self._partitioned_by: tuple[str, ...] | None = None
        """None until the table is known to exist."""
        self._terms: dict[ChainKey, _Term] = {}
        """Terms of the chains for which this process has tried to publish a link, until `rest` ends the term."""

    def __repr__(self) -> str:
        return f"IcebergTable({str(self._name)!r})"

    @property
    def name(self) -> str:
        return f"iceberg:{self._name}"

    @property
    def staging(self) -> Staging:
        assert self._staging is not None, "chosen by `open`, which reads the catalog's settings"
        return self._staging

    def takes_one_driver(self, settings: Mapping[str, str]) -> bool:
        try:
            return Catalog.of(self._name.catalog, settings.get).takes_one_driver
        except HandlerError:  # `open` raises it
            return False

    def open(self, spark: SparkSession) -> None:
        self._check_session(spark)
        try:
            self.staging.make()
        except OSError as error:
            problem = f"{self.name}: cannot stage in {self.staging}"
            raise directory_error(problem, error, "give another directory (staging)") from error
        self.staging.open(spark)
        if exists(spark, self._name):
            self._prepare_table(spark)
        else:
            self.restate_after = retention({}, None) / RESTATED_PER_RETENTION

    def heads(self, spark: SparkSession, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        return state.heads(keys) if (state := self._read_state(spark)) else {}

    def links(self, spark: SparkSession, key: ChainKey, since: int) -> Sequence[Link]:
        return state.history.links(key, since) if (state := self._read_state(spark)) else []

    def land(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        self._check_wap_enabled(spark)
        failures: list[Exception] = []
        staged: list[Landing] = []
        for landing in landings:
            try:
                self._stage(spark, landing, shape)
            except Exception as error:
                if passes(error):
                    raise
                failures.append(error)  # caused by these records only: the other attempts go on
            else:
                staged.append(landing)
                checkpoint(Phase.WRITTEN, [landing])
        if staged:
            links = [landing.link for landing in staged]
            state = self._state_reader.read(spark, is_cached=self._settings(spark).is_cached, staged=links)
            terms = {link.key: self._term(link) for link in links}
            failures += write_audit_publish.publish(spark, self._name, state, staged, terms, plain=shape.is_plain)
        if failures:
            raise failures[0]

    def evaluator(self, spark: SparkSession) -> Evaluate:
        if not exists(spark, self._name):
            return compute_all
        refresh(spark, self._name)
        return write_audit_publish.evaluator(spark, self._name, self._layout)

    def rest(self, spark: SparkSession, heads: Iterable[Link]) -> None:
        # First: if this process continues a chain later, that is another term, and a late mark of this one has no
        # effect.
        terms = {head.key: self._terms.pop(head.key, None) for head in heads}
        if (state := self._read_state(spark)) is not None:
            found = state.heads(terms)
            # Only heads of this process without later attempts: an owner that read the table before such a head was
            # published cannot append to it.
            ours = [head for key, head in found.items() if (term := terms[key]) and term.last_attempt == head.attempt]
            write_audit_publish.mark_chains(spark, self._name, state, [ChainMark.rest(head) for head in ours])

    # -- for the audit -------------------------------------------------------------------------------

    def driver_lock(self, spark: SparkSession) -> Path | None:
        catalog = self._settings(spark)
        hidden = self._hidden(catalog)
        if not catalog.takes_one_driver or hidden is None or is_connect(spark):
            return None
        return hidden / "driver.lock"

    def open_unstaged(self, spark: SparkSession) -> None:
        self._check_session(spark)
        if exists(spark, self._name):
            self._prepare_table(spark)

    def keys(self, spark: SparkSession) -> Sequence[ChainKey]:
        return state.keys() if (state := self._read_state(spark)) else []

    def all_links(self, spark: SparkSession, keys: Iterable[ChainKey]) -> Mapping[ChainKey, Sequence[Link]]:
        return state.history.all_links(keys) if (state := self._read_state(spark)) else {}

    def read(self, spark: SparkSession, version: str | None = None) -> DataFrame:
        state = self._require_state(spark)
        if version is None:
            return spark.table(self._name.sql)
        state.at(version)
        return spark.sql(f"SELECT * FROM {self._name.sql} VERSION AS OF {int(version)}")

    def heads_at(self, spark: SparkSession, version: str) -> dict[ChainKey, Link]:
        then = self._require_state(spark).at(version)
        return then.heads(then.keys())

    def leftovers(self, spark: SparkSession) -> Sequence[Leftover]:
        state = self._read_state(spark, whole=True)
        return list(leftovers.leftovers(spark, self._name, state, self._staging)) if state else []

    def remove(self, spark: SparkSession, leftover: Leftover) -> None:
        self._take_lease(spark)
        if state := self._read_state(spark, whole=True):
            leftovers.remove(spark, self._name, state, self._staging, leftover)

    # -- the table itself ----------------------------------------------------------------------------

    def _term(self, link: Link) -> str:
        """Start or continue the term of a link's chain, right before the link is published. Return the term's name."""
        term = self._terms.setdefault(link.key, _Term())
        term.last_attempt = link.attempt
        return term.name

    def _stage(self, spark: SparkSession, landing: Landing, shape: Shape) -> None:
        frame = shape.frame(spark, landing) if landing.staged else None
        if self._partitioned_by is None:
            if not exists(spark, self._name):
                with with_staged_file(landing, self.staging) as staged:
                    columns = (frame if frame is not None else shape.frame(spark, staged)).schema
                write_audit_publish.create(spark, self._name, columns, self._layout)
            self._prepare_table(spark)
        if frame is None:
            frame = spark.table(self._name.sql).limit(0)
        else:
            frame = write_audit_publish.conform_rows(spark, self._name, frame, self._partitioned_by or (), self._layout)
        write_audit_publish.stage(spark, self._name, landing.link, frame)
        require_all_read(spark, [landing])

    def _check_session(self, spark: SparkSession) -> None:
        """Raise HandlerError unless the session can publish links. Take the lease, if only one driver may commit."""
        iceberg(self._name.catalog).require(spark)
        self._settings(spark)
        if branch := spark.conf.get(WAP_BRANCH, None):
            raise HandlerError(
                f"{WAP_BRANCH} is {branch!r}: rows would land in that branch; unset it in the sink's Spark"
            )
        with temporary_settings(spark, {WAP_ID: "probe"}):
            if spark.conf.get(WAP_ID, None) != "probe":
                raise HandlerError(f"{WAP_ID} cannot be set in this Spark's sessions, but publishing links needs it")
        self._take_lease(spark)

    def _prepare_table(self, spark: SparkSession) -> None:
        """Check an existing table, and enable write-audit-publish for it."""
        properties = self._state_reader.properties(spark)
        if not properties.get("format", "").startswith("iceberg"):
            raise HandlerError(f"{self.name} is not an Iceberg table")
        main = f"SELECT max_snapshot_age_in_ms FROM {self._name.metadata('refs')} WHERE name = 'main'"
        main_keeps = next((row[0] for row in spark.sql(main).collect()), None)
        self.restate_after = retention(properties, main_keeps) / RESTATED_PER_RETENTION
        parts = partitioning(spark.sql(f"DESCRIBE TABLE {self._name.sql}").collect())
        wanted = self._layout.partition_by
        if wanted and not same_partitioning(wanted, parts):
            raise HandlerError(
                f"{self.name} is partitioned by ({', '.join(parts)}), not by ({', '.join(wanted)}): leave partition_by "
                "out, or change the table's partitioning"
            )
        if properties.get(WAP_ENABLED) != "true":
            write_audit_publish.set_properties(spark, self._name, {WAP_ENABLED: "true"})
        self._partitioned_by = parts

    def _check_wap_enabled(self, spark: SparkSession) -> None:
        """Refresh a cached table, and check that write-audit-publish is still enabled."""
        if self._partitioned_by is None:
            return
        if self._settings(spark).is_cached:
            refresh(spark, self._name)
        if self._state_reader.properties(spark).get(WAP_ENABLED) != "true":
            raise LandingError(
                f"{self.name}: {WAP_ENABLED} was switched off, but without it rows would land unchecked; set it to true"
            )

    def _read_state(self, spark: SparkSession, *, whole: bool = False) -> TableState | None:
        """Read the table's state; None if there is no table. `whole` reads all snapshots again."""
        catalog = self._settings(spark)
        if self._partitioned_by is None and not exists(spark, self._name):
            return None
        if whole:
            return TableStateReader(self._name).read(spark, is_cached=catalog.is_cached)
        state = self._state_reader.read(spark, is_cached=catalog.is_cached)
        self.growth = self._state_reader.growth(spark)
        return state

    def _require_state(self, spark: SparkSession) -> TableState:
        state = self._read_state(spark)
        if state is None:
            raise HandlerError(f"there is no table {self._name}: nothing has landed in it yet, or it was dropped")
        return state

    def _settings(self, spark: SparkSession) -> Catalog:
        if self._catalog is None:
            self._catalog = Catalog.of(self._name.catalog, lambda name: spark.conf.get(name, None))
            if self._staging is None:
                hidden = self._hidden(self._catalog)
                self._staging = Staging(hidden / "staging") if hidden else Staging.temporary(self._directory)
        return self._catalog

    def _hidden(self, catalog: Catalog) -> Path | None:
        """Return a directory beside the rows, hidden by its underscore; None if the warehouse is not local."""
        return Path(catalog.warehouse, *self._name.parts[1:], "_sarameya") if catalog.warehouse else None

    def _take_lease(self, spark: SparkSession) -> None:
        if (lock := self.driver_lock(spark)) is not None:
            take_driver_lease(lock)
