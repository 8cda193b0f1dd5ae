"""The history of a Delta table, newest commit first: by SQL, or from the log's files if they are visible here.

SQL (`DESCRIBE HISTORY`) works with any Spark and takes 150 ms or more. It always starts at the newest commit, so the
first query reads few commits and later queries many. A process that reaches the table's files itself reads a commit's
file instead, from a file system in 20 µs. Commits are cached: later calls read only newer commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from sarameya_handlers.landing.directory.numbered import last_number
from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.delta.errors import is_missing
from sarameya_handlers.spark.delta.history.checkpoints import LOG, commit_file, last_checkpoint_version, transactions_in
from sarameya_handlers.spark.delta.history.commits import APP_PREFIX, DeltaCommit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIRST_LIMIT = 64
"""Number of commits that the first query reads."""
_LIMIT_GROWTH = 16
"""Factor from the limit of one query to the next."""
_MAX_CACHED = 20_000
"""Maximum number of commits cached in memory, a few hundred bytes each."""
_MAX_AT_ONCE = 64
"""Maximum number of commits that are read from files at the same time."""
_ABOVE_ALL = 1 << 62
_COMMIT_FILE = re.compile(r"\d{20}\.json")
_COMMIT_INFO = b'{"commitInfo":'


class DeltaLog:
    """The history of one table. Thread-safe: the cache is replaced, never changed.

    Args:
        table: The table's name in SQL.
    """

    def __init__(self, table: str) -> None:
        self._table = table
        self.store: Store | None = None
        """The table's files, from which the log is read; None while it is read by SQL."""
        self._cached: tuple[DeltaCommit, ...] = ()
        """The newest commits, without a gap, newest first."""

    def read_from(self, store: Store) -> None:
        """Read the log's files from here from now on. Spark must see the same files."""
        self.store = store

    def commits(self, spark: SparkSession) -> Iterator[DeltaCommit]:
        """Yield all commits, newest first; none if there is no table."""
        cached = self._cached = self._refreshed_cache(spark)
        yield from cached
        if cached and cached[-1].version == 0:
            return
        older: list[DeltaCommit] = []
        try:
            for commit in self._read(spark, cached):
                if len(cached) + len(older) < _MAX_CACHED:
                    older.append(commit)
                yield commit
        finally:
            # Also if the caller stops early.
            self._cached = (*cached, *older)

    def newest(self, spark: SparkSession) -> int:
        """Return the table's newest version; -1 if there is no table."""
        self._cached = cached = self._refreshed_cache(spark)
        return cached[0].version if cached else next((commit.version for commit in self._read(spark, ())), -1)

    def transactions(self, spark: SparkSession, location: str) -> dict[str, int]:
        """Return the `txn` version of each chain, by appId. The log keeps transactions longer than its history.

        Reads the last checkpoint and the commits after it, if the log is visible here and the checkpoint is of the
        usual kind. Otherwise Spark reads the whole log.

        Args:
            spark: The session.
            location: The table's location.
        """
        if self.store is not None:
            found = transactions_in(self.store, self.newest(spark))
            if found is not None:
                return found
        return _transactions_by_spark(spark, location)

    def _refreshed_cache(self, spark: SparkSession) -> tuple[DeltaCommit, ...]:
        """Return the cache with all newer commits in front; without it if the table was dropped or recreated."""
        cached = self._cached
        if not cached:
            return ()
        newer: list[DeltaCommit] = []
        if self.store is not None:
            # Forward, and by reading: a request for each new commit, and one for the next, which is absent.
            known, *new = self._read_from(self.store, cached[0].version) or (None,)
            return (*reversed(new), *cached)[:_MAX_CACHED] if known == cached[0] else ()
        for commit in self._query(spark, ()):
            if commit == cached[0]:
                return (*newer, *cached)[:_MAX_CACHED]
            if commit.version <= cached[0].version:
                break
            newer.append(commit)
        return tuple(newer)

    def _read(self, spark: SparkSession, after: tuple[DeltaCommit, ...]) -> Iterator[DeltaCommit]:
        """Yield all commits, or only those older than the given ones."""
        if self.store is not None:
            return self._read_files(self.store, after)
        return self._query(spark, after)

    def _query(self, spark: SparkSession, after: tuple[DeltaCommit, ...]) -> Iterator[DeltaCommit]:
        limit, below = _FIRST_LIMIT, _ABOVE_ALL
        if after:
            below = after[-1].version
            limit += after[0].version - below + _FIRST_LIMIT * _LIMIT_GROWTH
        while True:
            try:
                rows = spark.sql(f"DESCRIBE HISTORY {self._table} LIMIT {limit}").collect()
            except Exception as error:
                if is_missing(error):
                    return
                raise
            for row in rows:
                if row.version < below:
                    below = row.version
                    yield _of_row(row)
            if len(rows) < limit or below == 0:
                return
            limit *= _LIMIT_GROWTH

    def _read_files(self, store: Store, after: tuple[DeltaCommit, ...]) -> Iterator[DeltaCommit]:
        version = after[-1].version - 1 if after else self._newest(store)
        count = 1  # most searches end at the first commits
        while version >= 0:
            versions = range(version, max(version - count, -1), -1)
            for version, content in zip(versions, store.get_all([*map(commit_file, versions)]), strict=True):
                if content is None:
                    return
                yield _of_file(content, version)
            version -= 1
            count = min(2 * count, _MAX_AT_ONCE)

    def _read_from(self, store: Store, version: int) -> list[DeltaCommit]:
        """Return the commits from a version on, oldest first; none if that version is missing."""
        found: list[DeltaCommit] = []
        while (content := store.get(commit_file(version + len(found)))) is not None:
            found.append(_of_file(content, version + len(found)))
        return found

    def _newest(self, store: Store) -> int:
        """Return the newest version; -1 if there is no table."""
        for known in (last_checkpoint_version(store), 0):
            if known is not None and _has(store, known):
                # A log has no gaps.
                return last_number(partial(_has, store), known)
        names = [name for name in store.entries(LOG) if _COMMIT_FILE.fullmatch(name)]
        return int(max(names)[:20]) if names else -1


def _of_row(row: Any) -> DeltaCommit:
    return DeltaCommit.of(
        row.version,
        stamp=str(row.timestamp),
        operation=row.operation or "",
        parameters=row.operationParameters or {},
        metrics=row.operationMetrics or {},
        metadata=row.userMetadata,
    )


def _of_file(content: bytes, version: int) -> DeltaCommit:
    info = _commit_info(content, version)
    return DeltaCommit.of(
        version,
        stamp=str(info.get("timestamp", "")),
        operation=info.get("operation") or "",
        parameters=info.get("operationParameters") or {},
        metrics=info.get("operationMetrics") or {},
        metadata=info.get("userMetadata"),
    )


def _commit_info(content: bytes, version: int) -> dict[str, Any]:
    """Return the `commitInfo` of a commit's file, usually in its first line; empty if the writer left it out."""
    for line in BytesIO(content):
        if line.startswith(_COMMIT_INFO):
            try:
                return msgspec.json.decode(line, type=dict[str, dict[str, Any]])["commitInfo"]
            except msgspec.MsgspecError as error:
                raise BrokenChainError(f"{commit_file(version)} is not a Delta commit: {error}") from error
    return {}


def _has(store: Store, version: int) -> bool:
    return store.is_there(commit_file(version))


def _transactions_by_spark(spark: SparkSession, location: str) -> dict[str, int]:
    """Read the whole log with Spark. Files may have several versions of one appId: the highest is the newest."""
    newest: dict[str, int] = {}
    log = f"{location.rstrip('/')}/_delta_log"
    for read in (_json_txns, _checkpoint_txns):
        for app, version in _newest_txns(read, spark, log):
            newest[app] = max(version, newest.get(app, 0))
    return newest


def _json_txns(spark: SparkSession, log: str) -> DataFrame:
    return spark.read.schema("txn struct<appId: string, version: bigint>").json(f"{log}/*.json")


def _checkpoint_txns(spark: SparkSession, log: str) -> DataFrame:
    return spark.read.parquet(f"{log}/*.checkpoint*.parquet")


def _newest_txns(read: Any, spark: SparkSession, log: str) -> list[tuple[str, int]]:
    try:
        frame = read(spark, log)
    except Exception as error:
        if is_missing(error):
            return []
        raise
    ours = frame.where(f"startswith(txn.appId, '{APP_PREFIX}')")
    found = ours.selectExpr("txn.appId as app", "txn.version as version").groupBy("app").max("version").collect()
    return [(row[0], row[1]) for row in found]
