"""An Iceberg table as a `Table`: a link is a snapshot that is staged, audited and published.

    append, with the wap id of link n ─► staged snapshot ─► is link n - 1 the chain's newest? ─► cherry-pick ─► main

Everything goes through SQL and DataFrames, so that Spark may be in this process or behind Spark Connect. Each landing
is a Spark job and two commits of its own: a snapshot has one wap id. `add_files`, which would take over a staged file
as it is, knows of no wap id, and commits straight into main.
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
from sarameya_handlers.spark.errors import LandingError, of_directory
from sarameya_handlers.spark.iceberg import leftovers, publishing
from sarameya_handlers.spark.iceberg.catalog import (
    RESTATED_IN,
    WAP_BRANCH,
    WAP_ENABLED,
    WAP_ID,
    Catalog,
    TableName,
    retention,
    take_driver_lease,
)
from sarameya_handlers.spark.iceberg.look import Look, Looker, exists, refresh
from sarameya_handlers.spark.iceberg.marks import Mark
from sarameya_handlers.spark.iceberg.schema import partitioning, same_partitioning
from sarameya_handlers.spark.poison.blame import passes
from sarameya_handlers.spark.shaping.staged import require_all_read
from sarameya_handlers.spark.tables.evaluating import Evaluate, to_nowhere
from sarameya_handlers.spark.tables.packages import iceberg
from sarameya_handlers.spark.tables.reach import check_reads
from sarameya_handlers.spark.tables.settings import changed
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Layout, Leftover, Phase, Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@attrs.define(slots=True)
class _Term:
    """An owner's time with a chain. `tried`: the attempt of the last link that it went to publish."""

    name: str = attrs.field(factory=lambda: uuid4().hex)
    tried: str = ""


class IcebergTable(Table):
    """Lands in the table `catalog.db.table`, which the first landing creates if it is not there.

    Exactly once, where the catalog's commits are atomic (`open` refuses those that are known not to be), and nobody
    sleeps for as long as the table keeps its snapshots while it publishes a link. `staging` is a directory that all of
    Spark's workers can read; it need not be given where the catalog's warehouse is one. Compaction
    (`rewrite_data_files`) may run at any time; `expire_snapshots` too, as long as it leaves what is younger than
    `history.expire.max-snapshot-age-ms`.
    """

    landings_a_job = 8
    states_heads = True
    forgets = True

    def __init__(
        self, table: str, *, layout: Layout | None = None, staging: str | os.PathLike[str] | None = None
    ) -> None:
        self._name = TableName.of(table)
        self._layout = layout or Layout()
        self._staging = Path(staging).absolute() / str(self._name) if staging is not None else None
        self._looker = Looker(self._name)
        self._catalog: Catalog | None = None
        self._partitioned_by: tuple[str, ...] | None = None
        """None while it is not known that the table is there."""
        self._terms: dict[ChainKey, _Term] = {}
        """Of the chains in which we have gone to publish a link, and that we have not given up in order since."""

    def __repr__(self) -> str:
        return f"IcebergTable({str(self._name)!r})"

    @property
    def name(self) -> str:
        return f"iceberg:{self._name}"

    @property
    def staging(self) -> Path:
        if self._staging is None:
            raise HandlerError(
                f"{self.name}: give a directory to stage in (staging) that all of Spark's workers can read"
            )
        return self._staging

    def takes_one_driver(self, settings: Mapping[str, str]) -> bool:
        try:
            return Catalog.of(self._name.catalog, settings.get).takes_one_driver
        except HandlerError:  # said when it is opened
            return False

    def open(self, spark: SparkSession) -> None:
        self._check_session(spark)
        try:
            self.staging.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            told = f"{self.name}: cannot stage in {self.staging}"
            raise of_directory(told, error, "give another directory (staging)") from error
        check_reads(spark, self.staging)
        if exists(spark, self._name):
            self._make_ready(spark)
        else:
            self.restate_after = retention({}, None) / RESTATED_IN

    def heads(self, spark: SparkSession, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        return look.heads(keys) if (look := self._look(spark)) else {}

    def links(self, spark: SparkSession, key: ChainKey, since: int) -> Sequence[Link]:
        return look.history.links(key, since) if (look := self._look(spark)) else []

    def land(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        self._check_audit(spark)
        failures: list[Exception] = []
        staged: list[Landing] = []
        for landing in landings:
            try:
                self._stage(spark, landing, shape)
            except Exception as error:
                if passes(error):
                    raise
                failures.append(error)  # it is about these records: the others land
            else:
                staged.append(landing)
                checkpoint(Phase.WRITTEN, [landing])
        if staged:
            look = self._looker.look(
                spark, is_cached=self._settings(spark).is_cached, staged=[one.link for one in staged]
            )
            terms = {one.link.key: self._term(one.link) for one in staged}
            failures += publishing.publish(spark, self._name, look, staged, terms, plain=shape.is_plain)
        if failures:
            raise failures[0]

    def evaluator(self, spark: SparkSession) -> Evaluate:
        if not exists(spark, self._name):
            return to_nowhere
        refresh(spark, self._name)
        return publishing.evaluator(spark, self._name, self._layout)

    def rest(self, spark: SparkSession, heads: Iterable[Link]) -> None:
        # First: should we go on with one, it is in another term, and what is said here late does not count.
        terms = {head.key: self._terms.pop(head.key, None) for head in heads}
        if (look := self._look(spark)) is not None:
            found = look.heads(terms)
            # A head of ours, behind which we have tried nothing: whoever else had looked before it cannot go on.
            ours = [head for key, head in found.items() if (term := terms[key]) and term.tried == head.attempt]
            publishing.mark_chains(spark, self._name, look, [Mark.rest(head) for head in ours])

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
            self._make_ready(spark)

    def keys(self, spark: SparkSession) -> Sequence[ChainKey]:
        return look.keys() if (look := self._look(spark)) else []

    def all_links(self, spark: SparkSession, keys: Iterable[ChainKey]) -> Mapping[ChainKey, Sequence[Link]]:
        return look.history.all_links(keys) if (look := self._look(spark)) else {}

    def read(self, spark: SparkSession, version: str | None = None) -> DataFrame:
        look = self._existing(spark)
        if version is None:
            return spark.table(self._name.sql)
        look.at(version)
        return spark.sql(f"SELECT * FROM {self._name.sql} VERSION AS OF {int(version)}")

    def heads_at(self, spark: SparkSession, version: str) -> dict[ChainKey, Link]:
        then = self._existing(spark).at(version)
        return then.heads(then.keys())

    def leftovers(self, spark: SparkSession) -> Sequence[Leftover]:
        look = self._look(spark, whole=True)
        return list(leftovers.leftovers(spark, self._name, look, self._staging)) if look else []

    def remove(self, spark: SparkSession, leftover: Leftover) -> None:
        self._take_lease(spark)
        if look := self._look(spark, whole=True):
            leftovers.remove(spark, self._name, look, self._staging, leftover)

    # -- the table itself ----------------------------------------------------------------------------

    def _term(self, link: Link) -> str:
        """What the link's chain is marked with, now that this one is about to be published."""
        term = self._terms.setdefault(link.key, _Term())
        term.tried = link.attempt
        return term.name

    def _stage(self, spark: SparkSession, landing: Landing, shape: Shape) -> None:
        frame = shape.frame(spark, landing) if landing.staged else None
        if self._partitioned_by is None:
            if not exists(spark, self._name):
                if frame is None:
                    columns = publishing.columns_without_rows(spark, landing, shape, self.staging)
                else:
                    columns = frame.schema
                publishing.create(spark, self._name, columns, self._layout)
            self._make_ready(spark)
        if frame is None:
            frame = spark.table(self._name.sql).limit(0)
        else:
            frame = publishing.fitted(spark, self._name, frame, self._partitioned_by or (), self._layout)
        publishing.stage(spark, self._name, landing.link, frame)
        require_all_read(spark, [landing])

    def _check_session(self, spark: SparkSession) -> None:
        """Whether links can be published by it, and by nobody else's driver that must not be."""
        iceberg(self._name.catalog).require(spark)
        self._settings(spark)
        if branch := spark.conf.get(WAP_BRANCH, None):
            raise HandlerError(
                f"{WAP_BRANCH} is {branch!r}: rows would land in that branch; unset it in the sink's Spark"
            )
        with changed(spark, {WAP_ID: "probe"}):
            if spark.conf.get(WAP_ID, None) != "probe":
                raise HandlerError(f"{WAP_ID} cannot be set in this Spark's sessions, and links are published by it")
        self._take_lease(spark)

    def _make_ready(self, spark: SparkSession) -> None:
        """Check a table that is there, and have it audit what is written."""
        properties = self._looker.properties(spark)
        if not properties.get("format", "").startswith("iceberg"):
            raise HandlerError(f"{self.name} is no Iceberg table")
        main = f"SELECT max_snapshot_age_in_ms FROM {self._name.metadata('refs')} WHERE name = 'main'"
        main_keeps = next((row[0] for row in spark.sql(main).collect()), None)
        self.restate_after = retention(properties, main_keeps) / RESTATED_IN
        there = partitioning(spark.sql(f"DESCRIBE TABLE {self._name.sql}").collect())
        wanted = self._layout.partition_by
        if wanted and not same_partitioning(wanted, there):
            raise HandlerError(
                f"{self.name} is partitioned by ({', '.join(there)}), not by ({', '.join(wanted)}): leave partition_by "
                "out, or change how the table is partitioned"
            )
        if properties.get(WAP_ENABLED) != "true":
            publishing.set_properties(spark, self._name, {WAP_ENABLED: "true"})
        self._partitioned_by = there

    def _check_audit(self, spark: SparkSession) -> None:
        """See the table as it is now, where the catalog remembers it, and that it still audits what is written."""
        if self._partitioned_by is None:
            return
        if self._settings(spark).is_cached:
            refresh(spark, self._name)
        if self._looker.properties(spark).get(WAP_ENABLED) != "true":
            raise LandingError(
                f"{self.name}: somebody has switched {WAP_ENABLED} off, without which rows would land unchecked; "
                "leave it on"
            )

    def _look(self, spark: SparkSession, *, whole: bool = False) -> Look | None:
        """None if there is no table."""
        catalog = self._settings(spark)
        if self._partitioned_by is None and not exists(spark, self._name):
            return None
        if whole:
            return Looker(self._name).look(spark, is_cached=catalog.is_cached)
        look = self._looker.look(spark, is_cached=catalog.is_cached)
        self.growth = self._looker.growth(spark)
        return look

    def _existing(self, spark: SparkSession) -> Look:
        look = self._look(spark)
        if look is None:
            raise HandlerError(f"there is no table {self._name}: nothing has landed in it yet, or it was dropped")
        return look

    def _settings(self, spark: SparkSession) -> Catalog:
        if self._catalog is None:
            self._catalog = Catalog.of(self._name.catalog, lambda name: spark.conf.get(name, None))
            if self._staging is None and (hidden := self._hidden(self._catalog)) is not None:
                self._staging = hidden / "staging"
        return self._catalog

    def _hidden(self, catalog: Catalog) -> Path | None:
        """Beside the rows, in a catalog of this machine's: what begins with an underscore Iceberg takes for hidden."""
        return Path(catalog.warehouse, *self._name.parts[1:], "_sarameya") if catalog.warehouse else None

    def _take_lease(self, spark: SparkSession) -> None:
        if (lock := self.driver_lock(spark)) is not None:
            take_driver_lease(lock)
