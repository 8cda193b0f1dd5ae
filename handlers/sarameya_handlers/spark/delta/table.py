"""A Delta Lake table as a `Table`: each link is one commit, with Delta's application transaction as compare-and-swap.

    rows of one attempt ─► append, txn (chain, n), metadata with the link ─► commit ─► the history shows the winner

Reads and writes go through SQL and DataFrames, so Spark may run in this process or behind Spark Connect. If this
process's driver is the only one of the table, or if the table is on S3, it commits directly (direct_commits.py) and
Spark only writes rows.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sarameya import ConfigError, HandlerError, StoreUsed
from sarameya_handlers.landing.errors import ForgottenChainError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.landing.stores.options import StoreOptions
from sarameya_handlers.landing.stores.places import store_at
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.delta import leftovers
from sarameya_handlers.spark.delta.checkpointing import require_delta_rs, write_checkpoint
from sarameya_handlers.spark.delta.checks import (
    KEPT_BY_DEFAULT,
    TableDetail,
    check_detail,
    check_session,
    check_store,
    has_shared_store,
    is_s3,
)
from sarameya_handlers.spark.delta.commit_rules import CommitRules, further_requirements
from sarameya_handlers.spark.delta.creation import creation
from sarameya_handlers.spark.delta.direct_commits import CommitOutcome, DirectCommitter, commit_lock
from sarameya_handlers.spark.delta.history.chains import LAST, ChainHistory, search, search_all
from sarameya_handlers.spark.delta.history.checkpoints import LOG, commit_file
from sarameya_handlers.spark.delta.history.commits import CommitMark, app_id, key_of, number_of
from sarameya_handlers.spark.delta.history.growth import growth_of
from sarameya_handlers.spark.delta.history.log import DeltaLog
from sarameya_handlers.spark.delta.history.summary import SummarizedLog
from sarameya_handlers.spark.delta.place import HIDDEN, Place, hidden, local_root
from sarameya_handlers.spark.delta.row_files import RowFile, record_columns, rows_directory, write_rows
from sarameya_handlers.spark.delta.spark_writer import SparkWriter
from sarameya_handlers.spark.engines.classic import is_users_spark
from sarameya_handlers.spark.engines.connect import is_connect
from sarameya_handlers.spark.engines.lease import holds_lease, take_lease
from sarameya_handlers.spark.errors import LandingError, directory_error
from sarameya_handlers.spark.tables.columns import struct
from sarameya_handlers.spark.tables.evaluation import Evaluate, compute_all
from sarameya_handlers.spark.tables.file_visibility import check_writes
from sarameya_handlers.spark.tables.group_lock import GroupLock
from sarameya_handlers.spark.tables.one_job import MAX_TOGETHER
from sarameya_handlers.spark.tables.staging import STAGING, Staging
from sarameya_handlers.spark.tables.store_checks import (
    require_names_once,
    require_trust,
)
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Layout, Leftover, Phase, Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("sarameya.spark")

_GROWTH_CHECK_INTERVAL = 1000
"""Commits between two checks of the log's length."""
_NEEDS_SPARK = (
    "needs commits of Spark, and on S3 these are safe only if one driver makes all commits of the table. Leave it out; "
    "or stop all members, and let them share one driver (single_driver = true)"
)
_RESTATED_PER_RETENTION = 3
"""An idle head is rewritten after this fraction of the history's retention (a third)."""


class DeltaTable(Table):
    """Lands in a Delta table, given by path or catalog name. The first link creates it if it does not exist.

    **Guaranteed** for all that `sarameya` writes to a table: each link lands at most once, with all of its rows or
    none, regardless of the number of attempts and owners, and of what a call returns. `heads` and `links` show which
    attempt won. The guarantee rests on three things:

    - Delta's transaction protocol: a commit is refused, or silently skipped, if the table already has a `txn` of the
      same appId with the same or a higher version; of two concurrent commits, one is refused. This holds for Delta's
      own writer, and for our direct commits (direct_commits.py): each is made at the version after the last one read.
    - The store: a commit's file is created only if it is absent. `open` checks this as far as possible.
    - The log: it is kept for delta.logRetentionDuration (30 days by default). An idle chain's head is rewritten well
      before (`restate_after`).

    **Not guaranteed**:

    - On a local or mounted file system, two Spark drivers that commit at the same moment can lose a commit, because
      Delta checks for a file and then renames over it. So a process with its own driver leases such a table, and
      several members share one Spark Connect server. You must make sure that no other driver writes (OPTIMIZE, for
      example).
    - On S3 members with any number of drivers may land: all commits are direct, each put only if there is none of its
      version. Commits of Spark, and of some other writers, are not: they may replace a commit. You must make sure that
      these do not write meanwhile (delta-rs may). Partitioned tables, and tables with further requirements, need
      `single_driver`, which states that only one driver commits, or Delta's multi-cluster log store (DynamoDB); then
      Spark makes all commits.
    - A commit is on disk once the file system has written it; Spark does not wait for that.
    - A chain whose head is older than the history (no link for that long, while other chains continued) does not
      continue: ForgottenChainError.
    - RESTORE while members run and continue to land: BrokenChainError. Stop them first, and rewind the group.

    OPTIMIZE, VACUUM, DELETE, UPDATE and MERGE may run at any time (in the same driver, see above; on S3 only while no
    member lands): they change files, not chains. Elsewhere than on S3 the sink commits directly only if it started the
    table's only Spark driver itself. It never does if it was given a SparkSession, since other code may commit there.

    Args:
        table: A path, or a name in a catalog.
        layout: Partitioning and schema evolution.
        staging: A directory that all of Spark's machines have mounted, or a URL of an object store. Optional if the
            table's file system is mounted here at the same path as there: then staging is below the table's root,
            hidden from readers and VACUUM, and the sink reads the log's files, too. On S3 the default is a temporary
            directory; if Spark runs on other machines, below the table's root.
        store: How to reach a store that speaks S3's protocol.
        single_driver: True to state that only one Spark driver commits to the table.
    """

    forgets = True

    def __init__(
        self,
        table: str | os.PathLike[str],
        *,
        layout: Layout | None = None,
        staging: str | os.PathLike[str] | None = None,
        store: StoreOptions | None = None,
        single_driver: bool = False,
    ) -> None:
        if type(single_driver) is not bool:
            raise ConfigError("single_driver", single_driver, "must be true or false")
        self._place = Place.of(table)
        if store is not None and (single_driver or not is_s3(self._place.location)):
            raise ConfigError("store", store, "is for tables on S3 by URL, and not with single_driver")
        self._layout = layout or Layout()
        self._name = f"delta:{self._place}"
        self._store_options = store
        self._store: Store | None = None
        """The table's files on S3, if this process makes all of its commits there. Chosen by `open_unstaged`."""
        self._staging = Staging.at(staging, self._place.file_name, store) if staging is not None else None
        self._stages_in_root = staging is None
        self._single_driver = single_driver
        self._use_place(self._place)
        self.restate_after = KEPT_BY_DEFAULT / _RESTATED_PER_RETENTION
        self._commits = GroupLock()
        """Held for commits, by Spark or by `_committer`."""
        self._committer: DirectCommitter | None = None
        """Set if the table's only driver is this process's own, or if the table is on S3."""
        self._is_checkpoint_due = False
        self._is_writable = False
        self._detail: TableDetail | None = None
        """None until the table is known to exist."""
        self._growth_checked_at = -_GROWTH_CHECK_INTERVAL
        """The newest version when the log's length was last checked."""
        self._known: dict[ChainKey, ChainHistory] = {}
        """Last known state of each chain: its last link, and the term of the next one."""

    def __repr__(self) -> str:
        return f"DeltaTable({str(self._place)!r})"

    @property
    def name(self) -> str:
        return self._name

    @property
    def staging(self) -> Staging:
        if self._staging is None:
            raise HandlerError(
                f"{self.name}: give a directory to stage in (staging), mounted here and on all of Spark's machines, or "
                "a URL of an object store; or create the table first. (Is the table a path? Write it with a slash: "
                "delta:./...)"
            )
        return self._staging

    # -- writing -------------------------------------------------------------------------------------

    def takes_one_driver(self, settings: Mapping[str, str]) -> bool:
        return self._single_driver or local_root(self._place.location) is not None

    def adopts(self, shape: Shape) -> bool:
        return self._committer is not None and shape.is_plain and not self._layout.partition_by

    def open(self, spark: SparkSession) -> None:
        self.open_unstaged(spark)
        if self._place.location and self._detail is None:
            self._apply_location(spark, self._place.location)
            # If staging is below the root, a later check proves that Spark sees the same directory.
            root = local_root(self._place.location) if self._stages_in_root else None
            self._require_vacant(spark, self._writer.parquet_columns(spark, root))
        self._create_staging(spark)

    def heads(self, spark: SparkSession, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        found = self._search(spark, dict.fromkeys(keys, LAST))
        self._require_not_forgotten(spark, found)
        return {key: chain.links[-1] for key, chain in found.items() if chain.links}

    def links(self, spark: SparkSession, key: ChainKey, since: int) -> Sequence[Link]:
        found = self._search(spark, {key: since})
        return [link for link in found[key].links if link.number >= since]

    def land(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        for landing in landings:
            if landing.link.key not in self._known:
                self._search(spark, {landing.link.key: LAST})
        self._ensure_created(spark, landings[0], shape)
        with self._row_files(spark, landings, shape, checkpoint) as rows:
            for landing in landings:
                ready = partial(checkpoint, Phase.READY, [landing])
                if landing.link.attempt not in rows or not self._commit_directly(spark, landing, rows, ready):
                    self._append(spark, landing, shape, ready)
        if self._is_checkpoint_due and self._store is not None:
            self._is_checkpoint_due = False
            assert self._detail is not None, "the table was found, or created"
            write_checkpoint(self._store, cleans_up=self._detail.is_cleaned_up)

    def evaluator(self, spark: SparkSession) -> Evaluate:
        # Reloaded, since constraints may change while members land.
        detail = TableDetail.load(spark, self._place.sql)
        return compute_all if detail is None else self._writer.evaluator(spark, detail)

    # -- for the audit -------------------------------------------------------------------------------

    def driver_lock(self, spark: SparkSession) -> Path | None:
        return _driver_lock(spark, self._require_detail(spark).location)

    def open_unstaged(self, spark: SparkSession) -> None:
        check_session(spark)
        location = self._place.location
        if self._store is None and is_s3(location) and not (self._single_driver or has_shared_store(spark, location)):
            self._commit_on_s3(store_at(location, self._store_options))
        self._load_detail(spark)

    def _commit_on_s3(self, store: Store) -> None:
        """Make all commits from now on, in this store."""
        self._store = store
        self._commits = commit_lock(store)
        self._committer = DirectCommitter(store, has_checkpoints_by_spark=False)
        self._use_place(Place(location=store.spark_url("").rstrip("/")))
        if self._staging is None:
            self._staging = Staging.temporary(self._place.file_name, store, STAGING)
            self._stages_in_root = False

    def _use_place(self, place: Place) -> None:
        self._place = place
        self._log = DeltaLog(place.sql)
        self._summarized = SummarizedLog(self._log)
        self._writer = SparkWriter(place, self._layout)

    def keys(self, spark: SparkSession) -> Sequence[ChainKey]:
        found = search_all(self._log.commits(spark))
        keys = {key for key, chain in found.items() if chain.links}
        if any(not chain.is_whole for chain in found.values()):
            keys |= {key for app in self._transactions(spark) if (key := key_of(app)) is not None}
        return sorted(keys)

    def all_links(self, spark: SparkSession, keys: Iterable[ChainKey]) -> Mapping[ChainKey, Sequence[Link]]:
        found = search(self._log.commits(spark), dict.fromkeys(keys, 1))
        return {key: chain.links for key, chain in found.items()}

    def read(self, spark: SparkSession, version: str | None = None) -> DataFrame:
        if self._detail is None:
            self._require_detail(spark)
        return self._writer.rows(spark, None if version is None else _version(version))

    def heads_at(self, spark: SparkSession, version: str) -> dict[ChainKey, Link]:
        wanted = _version(version)
        commits = list(self._log.commits(spark))
        if not any(commit.version == wanted for commit in commits):
            has = f"{commits[-1].version} to {commits[0].version}" if commits else "none"
            raise HandlerError(f"{self.name} has no version {wanted} in its history (it has {has})")
        found = search_all(commit for commit in commits if commit.version <= wanted)
        return {key: chain.links[-1] for key, chain in found.items() if chain.links}

    def leftovers(self, spark: SparkSession) -> Sequence[Leftover]:
        location = self._require_detail(spark).location
        store = self._files(location)
        if store is None:
            raise HandlerError(
                f"{self.name}: leftovers in {location} cannot be listed from here; "
                "VACUUM removes them, once they are older than the table's retention"
            )
        staging = self._staging or Staging(Path(store.place, STAGING))
        try:
            return leftovers.leftovers(store, lambda: self._writer.rows(spark).inputFiles(), staging)
        except OSError as error:
            if isinstance(store, LocalStore):
                raise
            raise HandlerError(
                f"{self.name}: leftovers cannot be listed, because this process does not reach the store: {error}. "
                "Give it credentials where AWS's tools look for them, and AWS_ENDPOINT_URL if it is not Amazon's; or "
                "let VACUUM remove the leftovers, once they are older than the table's retention"
            ) from error

    def remove(self, spark: SparkSession, leftover: Leftover) -> None:
        leftovers.remove(leftover, self._files(self._require_detail(spark).location), self._staging)

    def take_requests(self) -> StoreUsed | None:
        return self._store.usage.take(self.name) if self._store is not None else None

    def _files(self, location: str) -> Store | None:
        """Return the table's files; None if this process cannot reach them."""
        root = local_root(location)
        return LocalStore(root) if root is not None and (root / LOG).is_dir() else self._store

    # -- the table itself ----------------------------------------------------------------------------

    def _ensure_created(self, spark: SparkSession, landing: Landing, shape: Shape) -> None:
        """Create the table if it does not exist."""
        if self._detail is None:
            self._load_detail(spark)
        if self._detail is None:
            with self._commits.held(SparkWriter):
                if self._store is None:
                    self._writer.create(spark, landing, shape, self.staging)
                else:
                    columns = self._writer.columns(spark, landing, shape, self.staging)
                    if not self._store.put_if_absent(commit_file(0), creation(self.name, columns)):
                        logger.info("another process has created %s meanwhile", self._place)
            self._load_detail(spark)

    @contextmanager
    def _row_files(
        self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint
    ) -> Iterator[Mapping[str, RowFile | None]]:
        """Provide files with the rows of those attempts that can be committed directly, inside a block."""
        committer = self._committer
        rules = committer.rules(self._log.newest(spark), partial(self._load_rules, spark)) if committer else None
        # Without a Spark job for several attempts, none has to wait for others.
        self.landings_per_job = 1 if rules is None or shape.is_plain else MAX_TOGETHER
        if committer is None or rules is None:
            yield {}
            return
        # Elsewhere Spark commits staged files that do not fit the table as they are.
        adopts = shape.is_plain and (self._store is None or rules.accepts(record_columns()))
        if not adopts and any(landing.staged for landing in landings):
            self._check_writes(spark)
        with write_rows(spark, committer.store, landings, shape, partial(self._conform, rules), adopts=adopts) as rows:
            if not adopts:
                checkpoint(Phase.WRITTEN, [landing for landing in landings if landing.link.attempt in rows])
            yield rows

    def _commit_directly(
        self, spark: SparkSession, landing: Landing, rows: Mapping[str, RowFile | None], on_ready: Callable[[], None]
    ) -> bool:
        """Commit an attempt without Spark. Return False if Spark has to make the commit."""
        assert self._committer is not None, "rows have files only if there is a committer"

        mark: CommitMark | None = None

        def read_mark() -> CommitMark | CommitOutcome:
            nonlocal mark
            found = self._search(spark, {landing.link.key: LAST})[landing.link.key]
            if not found.links and not found.is_whole:
                if self._store is None:
                    return CommitOutcome.LEFT_TO_SPARK  # Delta's writer recognizes a forgotten chain by its transaction
                self._require_not_forgotten(spark, {landing.link.key: found})
            mark = _mark(landing, found)
            return mark or CommitOutcome.LOST

        with self._commits.held(DirectCommitter):
            outcome = self._committer.append(
                landing,
                rows[landing.link.attempt],
                read_mark=read_mark,
                load_rules=partial(self._load_rules, spark),
                on_ready=on_ready,
            )
        if outcome is CommitOutcome.MADE and mark is not None:
            self._is_checkpoint_due |= self._committer.is_checkpoint(mark.seen + 1)
        return outcome is not CommitOutcome.LEFT_TO_SPARK

    def _conform(self, rules: CommitRules, frame: DataFrame) -> DataFrame | None:
        """Convert rows to the table's columns; None if they need other columns in the table, which only Spark adds."""
        frame = self._writer.conform(frame, struct(rules.columns))
        return frame if rules.accepts(frame.schema.jsonValue()) else None

    def _append(self, spark: SparkSession, landing: Landing, shape: Shape, on_ready: Callable[[], None]) -> None:
        if self._store is not None:
            raise HandlerError(self._why_not(spark))
        with self._commits.held(SparkWriter):
            if (mark := _mark(landing, self._known[landing.link.key])) is not None:
                on_ready()
                assert self._detail is not None, "the table was found, or created"
                self._writer.append(spark, landing, shape, mark, self._detail)

    def _why_not(self, spark: SparkSession) -> str:
        """Return the reason why only Spark could commit to this table, and what to do."""
        detail = self._require_detail(spark)
        reasons = further_requirements(detail, self._writer.rows(spark).schema.jsonValue())
        return f"{self.name}: {', '.join(reasons) or 'the table as it is now'} {_NEEDS_SPARK}"

    def _load_rules(self, spark: SparkSession) -> CommitRules | None:
        """Return the commit rules of the table's current state; None if Spark must make each commit."""
        self._load_detail(spark)
        return (
            None
            if self._detail is None
            else CommitRules.of(
                self._detail, self._writer.rows(spark).schema.jsonValue(), has_checkpoints_by_spark=self._store is None
            )
        )

    def _check_growth(self, newest: int) -> None:
        """Check the log's length from time to time, if its files are visible here."""
        if self._log.store is not None and newest - self._growth_checked_at >= _GROWTH_CHECK_INTERVAL:
            self._growth_checked_at = newest
            self.growth = growth_of(self._log.store, newest, self._place.sql)

    def _search(self, spark: SparkSession, since: Mapping[ChainKey, int]) -> dict[ChainKey, ChainHistory]:
        found = self._summarized.search(spark, since)
        self._known.update(found)
        self._check_growth(max((chain.seen for chain in found.values()), default=-1))
        return found

    def _require_not_forgotten(self, spark: SparkSession, found: Mapping[ChainKey, ChainHistory]) -> None:
        """Raise ForgottenChainError for a chain whose links are all older than the history."""
        absent = {app_id(key): key for key, chain in found.items() if not chain.links and not chain.is_whole}
        known = self._transactions(spark) if absent else {}
        for app in sorted(absent.keys() & known.keys()):
            number = number_of(known[app])
            raise ForgottenChainError(
                f"{absent[app]}: link {number} is its last in {self.name}, but the history no longer has this link: "
                "none was appended for longer than delta.logRetentionDuration. Find the highest offset of the "
                "partition in the table, set the group's offset to the next one, and land from there as another sink "
                "(name)"
            )

    def _transactions(self, spark: SparkSession) -> dict[str, int]:
        return self._log.transactions(spark, self._require_detail(spark).location)

    def _require_vacant(self, spark: SparkSession, columns: Sequence[str] | None) -> None:
        """Raise HandlerError if there are Parquet files, which have these columns, but no Delta table."""
        if columns is None:
            return
        # Another process may have created the table between the first check and the listing of its files.
        self._load_detail(spark)
        if self._detail is None:
            raise HandlerError(
                f"{self._place} holds Parquet files ({', '.join(columns[:5])}, ...), and no Delta table: land in an "
                "empty directory, or convert the files (CONVERT TO DELTA parquet.`...`)"
            )

    def _require_detail(self, spark: SparkSession) -> TableDetail:
        detail = TableDetail.load(spark, self._place.sql)
        if detail is None:
            raise HandlerError(f"there is no table {self._place}: nothing has landed in it yet, or it was dropped")
        return detail

    def _load_detail(self, spark: SparkSession) -> None:
        """Load the table's detail, if it exists, and check it."""
        detail = TableDetail.load(spark, self._place.sql)
        if detail is not None:
            check_detail(self.name, detail, self._layout)
            self.restate_after = detail.kept_for / _RESTATED_PER_RETENTION
            self._apply_location(spark, detail.location)
        self._detail = detail

    def _apply_location(self, spark: SparkSession, location: str) -> None:
        """Check the store, take the lease, and set the commit lock and the staging directory for this location."""
        if self._store is not None:
            return
        check_store(spark, location, single_driver=self._single_driver)
        lock = _driver_lock(spark, location)
        if lock is not None and not self._single_driver:
            take_lease(
                lock,
                f"another process lands in {self.name} with a Spark driver of its own, and on a local file system two "
                "drivers that commit at once lose a commit: let members share one Spark Connect server "
                "(spark.master = 'sc://...', or spark.share = true for the workers of one service)",
            )
        root = local_root(location)
        if root is not None:
            self._commits = commit_lock(LocalStore(root))
        if root is not None and self._stages_in_root:
            self._staging = Staging(root / STAGING)

    def _create_staging(self, spark: SparkSession) -> None:
        """Create the staging directory, and prepare direct commits if the table allows them.

        If staging is below the table's root and Spark can read files there, both see the same table.
        """
        try:
            self.staging.make()
        except OSError as error:
            remedy = "give another directory (staging), mounted here and on all of Spark's machines"
            raise directory_error(f"{self.name}: cannot stage in {self.staging}", error, remedy) from error
        self.staging.open(spark)
        if self._store is not None:
            self._prepare_store(spark, self._store)
        elif not self._stages_in_root:
            self._summarized.store_in(LocalStore(self.staging.directory), "heads.json")
        else:
            root = self.staging.directory.parents[1]
            store = LocalStore(root)
            self._summarized.store_in(store, f"{HIDDEN}/heads.json")
            self._log.read_from(store)
            # Not for a catalog's table: its name may be given to another directory while the sink runs.
            lock = _driver_lock(spark, f"file://{root}")
            is_only_driver = lock is not None and holds_lease(lock) and not is_users_spark(spark)
            if self._place.location and is_only_driver and _allows_direct_commits(spark, store):
                self._committer = DirectCommitter(store, has_checkpoints_by_spark=True)
                # Until the table's rules are known, even if there is no table yet.
                self.landings_per_job = MAX_TOGETHER

    def _prepare_store(self, spark: SparkSession, store: Store) -> None:
        """Check that records can land in an object store exactly once."""
        for option in ("partition_by", "evolve_schema"):
            if getattr(self._layout, option):
                raise HandlerError(f"{self.name}: {option} {_NEEDS_SPARK}")
        require_trust(self.name, store)
        require_delta_rs()
        directory = rows_directory(store)
        try:
            store.prepare([directory])
            require_names_once(store, directory)
        except OSError as error:
            remedy = "check the URL, the option `store`, the credentials, and their permissions"
            raise directory_error(f"cannot land in {store.place}", error, remedy, "store") from error
        self._summarized.store_in(store, f"{HIDDEN}/heads.json")
        self._log.read_from(store)
        self.landings_per_job = MAX_TOGETHER

    def _check_writes(self, spark: SparkSession) -> None:
        """Check that Spark can write to the object store. Not at the start: staged files may need no Spark job."""
        if self._store is not None and not self._is_writable:
            check_writes(spark, self._store, rows_directory(self._store))
            self._is_writable = True


def _driver_lock(spark: SparkSession, location: str) -> Path | None:
    root = local_root(location)
    return None if root is None or is_connect(spark) else hidden(root) / "driver.lock"


def _mark(landing: Landing, known: ChainHistory) -> CommitMark | None:
    """Return the mark for an attempt; None if the chain already has the link.

    Raises:
        LandingError: The chain lacks the link before it.
    """
    number, last = landing.link.number, known.links[-1].number if known.links else 0
    if number > last + 1:
        raise LandingError(f"{landing}: the table has no link {number - 1}, only {last}")
    if number <= last:
        logger.info("%s is not attempted: the table has this link", landing)
        return None
    return CommitMark(landing.link, known.seen, known.term)


def _version(text: str) -> int:
    if not text.isdecimal():
        raise HandlerError(f"version {text!r}: a Delta table's versions are whole numbers")
    return int(text)


def _allows_direct_commits(spark: SparkSession, store: Store) -> bool:
    """Return whether this process can move files that Spark writes there, and only one process can take a name."""
    directory = rows_directory(store)
    try:
        store.prepare([directory])
        check_writes(spark, store, directory)
        return store.gives_names_once(directory)
    except (OSError, HandlerError) as reason:
        logger.warning("Spark makes each commit until the sink is restarted, which takes longer: %s", reason)
        return False
