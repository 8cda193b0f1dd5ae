"""A Delta Lake table as a `Table`: a link is a commit of its own, with Delta's application transaction as its swap.

    rows of one landing ─► append, txn (chain, n), metadata with the link ─► commit ─► the history tells who won

Everything goes through SQL and DataFrames, so that Spark may be in this process or behind Spark Connect; but where
this process's driver is the table's only one: then commits are our own (adopting.py), and Spark only writes rows.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sarameya import ConfigError, HandlerError
from sarameya_handlers.landing.errors import ForgottenChainError
from sarameya_handlers.landing.files import names_are_given_once
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.delta import leftovers
from sarameya_handlers.spark.delta.adopting import Adopter, Adoption, lock_of
from sarameya_handlers.spark.delta.chains import LAST, Found, everything, search
from sarameya_handlers.spark.delta.checks import KEPT_BY_DEFAULT, Detail, check_detail, check_session, check_store
from sarameya_handlers.spark.delta.commits import Mark, app_id, key_of, number_of
from sarameya_handlers.spark.delta.growth import growth_of
from sarameya_handlers.spark.delta.log import DeltaLog
from sarameya_handlers.spark.delta.place import Place, hidden, local_root
from sarameya_handlers.spark.delta.rows import Rows, writing, written
from sarameya_handlers.spark.delta.summary import SummarizedLog
from sarameya_handlers.spark.delta.terms import Terms
from sarameya_handlers.spark.delta.writing import Writer
from sarameya_handlers.spark.engines.classic import is_given
from sarameya_handlers.spark.engines.connect import is_connect
from sarameya_handlers.spark.errors import LandingError, of_directory
from sarameya_handlers.spark.tables.columns import struct
from sarameya_handlers.spark.tables.evaluating import Evaluate, to_nowhere
from sarameya_handlers.spark.tables.group_lock import GroupLock
from sarameya_handlers.spark.tables.lease import holds_lease, take_lease
from sarameya_handlers.spark.tables.one_job import TOGETHER
from sarameya_handlers.spark.tables.reach import check_reads, check_writes
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Layout, Leftover, Phase, Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("sarameya.spark")

_LOOK_EACH = 1000
"""Commits between two looks at how long the log is."""
_RESTATED_IN = 3
"""An idle head is stated anew in this part of the time for which the table keeps its history."""


class DeltaTable(Table):
    """Lands in a Delta table, a path or a catalog's name, which the first landing creates if it is not there.

    **Guaranteed**, for what all writers of `sarameya` do with one table: each link lands at most once, with all of
    its rows or none, whoever tries it, how often, and whatever a call says; `heads` and `links` tell who won. It
    rests on three things. Delta's transaction protocol: a commit with a `txn` is refused, or passed over in silence,
    once the table has one of this appId that is as high, and where two are at it, one of them is; this holds for
    Delta's own writer, and for ours (adopting.py), which knows all that comes before its commit. The store: a
    commit's file is put only where there is none, which `open` checks as far as it can be known. And the log, which
    is kept for delta.logRetentionDuration (30 days by default): an idle chain's head is stated anew well before
    (`restate_after`).

    **Not guaranteed**: on a local or mounted file system two Spark drivers that commit at the same moment can lose a
    commit, since Delta looks for a file and then renames over it. So a process with a driver of its own leases such a
    table, and several members share one Spark Connect server; that nobody else writes from another driver (OPTIMIZE,
    say) is for you to see to. On S3 it takes the multi-cluster log store, or `single_driver`, by which you say that one
    driver commits. A commit is on the disk when the file system has brought it there; Spark does not wait for that.
    A chain whose head is older than the history (nobody has landed in it for that long, and others have gone on in the
    table) is not begun anew: ForgottenChainError. RESTORE while members run, which land on: BrokenChainError; stop them
    before, and have the group rewound.

    OPTIMIZE, VACUUM, DELETE, UPDATE and MERGE may run at any time (in the driver, see above): they change files, not
    chains. Where a Spark that the sink has started is the only one, the sink commits itself (adopting.py); through a
    SparkSession that it was given it does not, since nobody knows what else commits there. `staging` is a directory
    that all of Spark's workers can read; it need not be given where the table is on a file system that is mounted
    here as it is there: then it is below the table's root, where neither readers nor VACUUM look, and the log is read
    from there, too.
    """

    forgets = True

    def __init__(
        self,
        table: str | os.PathLike[str],
        *,
        layout: Layout | None = None,
        staging: str | os.PathLike[str] | None = None,
        single_driver: bool = False,
    ) -> None:
        if type(single_driver) is not bool:
            raise ConfigError("single_driver", single_driver, "must be true or false")
        self._place = Place.of(table)
        self._layout = layout or Layout()
        self._staging = Path(staging).absolute() / self._place.file_name if staging is not None else None
        self._stages_in_root = staging is None
        self._single_driver = single_driver
        self._log = DeltaLog(self._place.sql)
        self._summarized = SummarizedLog(self._log)
        self._writer = Writer(self._place, self._layout)
        self.restate_after = KEPT_BY_DEFAULT / _RESTATED_IN
        self._commits = GroupLock()
        """By Spark, or by the adopter."""
        self._adopter: Adopter | None = None
        """Where this process's driver is the only one."""
        self._detail: Detail | None = None
        """None while it is not known that the table is there."""
        self._looked_at = -_LOOK_EACH
        """The newest version when the length of the log was last looked at."""
        self._known: dict[ChainKey, Found] = {}
        """What was last read of each chain: from where, and in which term, it goes on."""

    def __repr__(self) -> str:
        return f"DeltaTable({str(self._place)!r})"

    @property
    def name(self) -> str:
        return f"delta:{self._place}"

    @property
    def staging(self) -> Path:
        if self._staging is None:
            raise HandlerError(
                f"{self.name}: give a directory to stage in (staging), mounted here, that all of Spark's workers can "
                "read, or create the table before. (Is it a path? That is written with a slash, delta:./...)"
            )
        return self._staging

    # -- landing -------------------------------------------------------------------------------------

    def takes_one_driver(self, settings: Mapping[str, str]) -> bool:
        return self._single_driver or local_root(self._place.location) is not None

    def adopts(self, shape: Shape) -> bool:
        return self._adopter is not None and shape.is_plain and not self._layout.partition_by

    def open(self, spark: SparkSession) -> None:
        self.open_unstaged(spark)
        if self._place.location and self._detail is None:
            self._settle(spark, self._place.location)
            # Where we stage below it, it is checked that Spark sees the same directory.
            root = local_root(self._place.location) if self._stages_in_root else None
            self._require_vacant(spark, self._writer.parquet_columns(spark, root))
        self._make_staging(spark)

    def heads(self, spark: SparkSession, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        found = self._search(spark, dict.fromkeys(keys, LAST))
        self._require_remembered(spark, found)
        return {key: chain.links[-1] for key, chain in found.items() if chain.links}

    def links(self, spark: SparkSession, key: ChainKey, since: int) -> Sequence[Link]:
        found = self._search(spark, {key: since})
        return [link for link in found[key].links if link.number >= since]

    def land(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        for landing in landings:
            if landing.link.key not in self._known:
                self._search(spark, {landing.link.key: LAST})
        self._have(spark, landings[0], shape)
        with self._rows(spark, landings, shape, checkpoint) as rows:
            for landing in landings:
                ready = partial(checkpoint, Phase.READY, [landing])
                if landing.link.attempt not in rows or not self._adopted(spark, landing, rows, ready):
                    self._append(spark, landing, shape, ready)

    def evaluator(self, spark: SparkSession) -> Evaluate:
        # Asked again: constraints come and go while members land.
        detail = Detail.ask(spark, self._place.sql)
        return to_nowhere if detail is None else self._writer.evaluator(spark, detail)

    # -- for the audit -------------------------------------------------------------------------------

    def driver_lock(self, spark: SparkSession) -> Path | None:
        return _driver_lock(spark, self._look(spark).location)

    def open_unstaged(self, spark: SparkSession) -> None:
        check_session(spark)
        self._find(spark)

    def keys(self, spark: SparkSession) -> Sequence[ChainKey]:
        found = everything(self._log.commits(spark))
        keys = {key for key, chain in found.items() if chain.links}
        if any(not chain.is_whole for chain in found.values()):
            keys |= {key for app in self._transactions(spark) if (key := key_of(app)) is not None}
        return sorted(keys)

    def all_links(self, spark: SparkSession, keys: Iterable[ChainKey]) -> Mapping[ChainKey, Sequence[Link]]:
        found = search(self._log.commits(spark), dict.fromkeys(keys, 1))
        return {key: chain.links for key, chain in found.items()}

    def read(self, spark: SparkSession, version: str | None = None) -> DataFrame:
        if self._detail is None:
            self._look(spark)
        return self._writer.rows(spark, None if version is None else _version(version))

    def heads_at(self, spark: SparkSession, version: str) -> dict[ChainKey, Link]:
        wanted = _version(version)
        commits = list(self._log.commits(spark))
        if not any(commit.version == wanted for commit in commits):
            has = f"{commits[-1].version} to {commits[0].version}" if commits else "none"
            raise HandlerError(f"{self.name} has no version {wanted} in its history (it has {has})")
        found = everything(commit for commit in commits if commit.version <= wanted)
        return {key: chain.links[-1] for key, chain in found.items() if chain.links}

    def leftovers(self, spark: SparkSession) -> Sequence[Leftover]:
        detail = self._look(spark)
        root = local_root(detail.location)
        if root is None or not (root / "_delta_log").is_dir():
            raise HandlerError(
                f"{self.name}: what is left behind in {detail.location} cannot be listed from here; "
                "VACUUM removes it, once it is older than the table's retention"
            )
        return leftovers.leftovers(
            root, lambda: self._writer.rows(spark).inputFiles(), self._staging or hidden(root) / "staging"
        )

    def remove(self, spark: SparkSession, leftover: Leftover) -> None:
        root = local_root(self._look(spark).location)
        leftovers.remove(leftover, root, self._staging)

    # -- the table itself ----------------------------------------------------------------------------

    def _have(self, spark: SparkSession, landing: Landing, shape: Shape) -> None:
        """Create it, if it is not there."""
        if self._detail is None:
            self._find(spark)
        if self._detail is None:
            with self._commits.held(Writer):
                self._writer.create(spark, landing, shape, self.staging)
            self._find(spark)

    @contextmanager
    def _rows(
        self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint
    ) -> Iterator[Mapping[str, Rows | None]]:
        """Files of these landings' rows, where commits are our own, as far as they are."""
        adopter = self._adopter
        terms = adopter.terms(self._log.newest(spark), partial(self._ask, spark)) if adopter else None
        # Where nothing is to be written, none waits for others.
        self.landings_a_job = 1 if terms is None or shape.is_plain else TOGETHER
        if adopter is None or terms is None:
            yield {}
            return
        with written(spark, adopter.root, landings, shape, partial(self._fitted, terms)) as rows:
            if not shape.is_plain:
                checkpoint(Phase.WRITTEN, [landing for landing in landings if landing.link.attempt in rows])
            yield rows

    def _adopted(
        self, spark: SparkSession, landing: Landing, rows: Mapping[str, Rows | None], ready: Callable[[], None]
    ) -> bool:
        """Commit it ourselves; False where that is to be Spark's."""
        assert self._adopter is not None, "there are rows of it"

        def read() -> Mark | Adoption:
            found = self._search(spark, {landing.link.key: LAST})[landing.link.key]
            if not found.links and not found.is_whole:
                return Adoption.SPARKS  # which knows of forgotten chains by their transactions
            return _mark(landing, found) or Adoption.LOST

        with self._commits.held(Adopter):
            adoption = self._adopter.append(
                landing, rows[landing.link.attempt], read=read, ask=partial(self._ask, spark), ready=ready
            )
        return adoption is not Adoption.SPARKS

    def _fitted(self, terms: Terms, frame: DataFrame) -> DataFrame | None:
        """None for rows that are to change the table's columns, which is Spark's to do."""
        frame = self._writer.fitted(frame, struct(terms.columns))
        return frame if terms.take(frame.schema.jsonValue()) else None

    def _append(self, spark: SparkSession, landing: Landing, shape: Shape, ready: Callable[[], None]) -> None:
        with self._commits.held(Writer):
            if (mark := _mark(landing, self._known[landing.link.key])) is not None:
                ready()
                assert self._detail is not None, "it was found, or created"
                self._writer.append(spark, landing, shape, mark, self._detail)

    def _ask(self, spark: SparkSession) -> Terms | None:
        """Those of the table as it is."""
        self._find(spark)
        return None if self._detail is None else Terms.of(self._detail, self._writer.rows(spark).schema.jsonValue())

    def _note_growth(self, newest: int) -> None:
        """Look, each so many commits, whether the log has grown long, where it is a directory that we see."""
        if self._log.directory is not None and newest - self._looked_at >= _LOOK_EACH:
            self._looked_at = newest
            self.growth = growth_of(self._log.directory, newest, self._place.sql)

    def _search(self, spark: SparkSession, since: Mapping[ChainKey, int]) -> dict[ChainKey, Found]:
        found = self._summarized.search(spark, since)
        self._known.update(found)
        self._note_growth(max((chain.seen for chain in found.values()), default=-1))
        return found

    def _require_remembered(self, spark: SparkSession, found: Mapping[ChainKey, Found]) -> None:
        """That chains of which the history says nothing have not begun, rather than been forgotten."""
        absent = {app_id(key): key for key, chain in found.items() if not chain.links and not chain.is_whole}
        known = self._transactions(spark) if absent else {}
        for app in sorted(absent.keys() & known.keys()):
            number = number_of(known[app])
            raise ForgottenChainError(
                f"{absent[app]}: link {number} is its last in {self.name}, but the history that says where it ends is "
                "gone: nobody has landed in it for longer than delta.logRetentionDuration. Find the highest offset of "
                "the partition in the table, and land from there as another sink (name), with the group's offset set "
                "to it"
            )

    def _transactions(self, spark: SparkSession) -> dict[str, int]:
        return self._log.transactions(spark, self._look(spark).location)

    def _require_vacant(self, spark: SparkSession, columns: Sequence[str] | None) -> None:
        """Raise HandlerError if Parquet files have these columns, and there is no Delta table that they belong to."""
        if columns is None:
            return
        # Another process may have created the table between the first look and the listing of its files.
        self._find(spark)
        if self._detail is None:
            raise HandlerError(
                f"{self._place} holds Parquet files ({', '.join(columns[:5])}, ...), and no Delta table: land in an "
                "empty directory, or make it one (CONVERT TO DELTA parquet.`...`)"
            )

    def _look(self, spark: SparkSession) -> Detail:
        detail = Detail.ask(spark, self._place.sql)
        if detail is None:
            raise HandlerError(f"there is no table {self._place}: nothing has landed in it yet, or it was dropped")
        return detail

    def _find(self, spark: SparkSession) -> None:
        """Look whether the table is there, and will do."""
        detail = Detail.ask(spark, self._place.sql)
        if detail is not None:
            check_detail(self.name, detail, self._layout)
            self.restate_after = detail.kept_for / _RESTATED_IN
            self._settle(spark, detail.location)
        self._detail = detail

    def _settle(self, spark: SparkSession, location: str) -> None:
        """What follows from where the table is, or will be."""
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
            self._commits = lock_of(root)
        if root is not None and self._stages_in_root:
            self._staging = hidden(root) / "staging"

    def _make_staging(self, spark: SparkSession) -> None:
        """If Spark reads what we put there, and that is below the table's root, both see the same table."""
        try:
            self.staging.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            remedy = "give another directory (staging), mounted here, that all of Spark's workers can read"
            raise of_directory(f"{self.name}: cannot stage in {self.staging}", error, remedy) from error
        check_reads(spark, self.staging)
        self._summarized.is_kept_in((self.staging.parent if self._stages_in_root else self.staging) / "heads.json")
        if self._stages_in_root:
            root = self.staging.parents[1]
            self._log.is_at(root)
            # Not of a catalog's table, whose name may become another directory's while we land.
            lock = _driver_lock(spark, f"file://{root}")
            is_ours = lock is not None and holds_lease(lock) and not is_given(spark)
            if self._place.location and is_ours and _may_be_written(spark, writing(root)):
                self._adopter = Adopter(root)
                self.landings_a_job = TOGETHER  # until its terms are known: also of those that find no table yet


def _driver_lock(spark: SparkSession, location: str) -> Path | None:
    root = local_root(location)
    return None if root is None or is_connect(spark) else hidden(root) / "driver.lock"


def _mark(landing: Landing, known: Found) -> Mark | None:
    """A landing's, by what was read of its chain; None where that has the link. Raises LandingError where it has not
    the one before."""
    number, last = landing.link.number, known.links[-1].number if known.links else 0
    if number > last + 1:
        raise LandingError(f"{landing}: the table has no link {number - 1}, only {last}")
    if number <= last:
        logger.info("%s is not tried, the table has it", landing)
        return None
    return Mark(landing.link, known.seen, known.term)


def _version(text: str) -> int:
    if not text.isdecimal():
        raise HandlerError(f"version {text!r}: a Delta table's versions are whole numbers")
    return int(text)


def _may_be_written(spark: SparkSession, directory: Path) -> bool:
    """Whether files that Spark writes there can be moved from here, and names are given once."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        check_writes(spark, directory)
        return names_are_given_once(directory)
    except (OSError, HandlerError) as reason:
        logger.warning("each commit is left to Spark until the sink starts anew, which takes longer: %s", reason)
        return False
