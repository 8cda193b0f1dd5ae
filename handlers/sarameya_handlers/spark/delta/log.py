"""The history of a Delta table, from its newest commit backwards: by SQL, or from the log's files where we see them.

SQL (`DESCRIBE HISTORY`) works wherever Spark is, and takes 150 ms and more of it; it always begins with the newest
commit, so it is asked for few at first, and then for many. A commit's file is read in 20 µs, by whoever shares a file
system with the table. What was read once is kept: only what is newer is read again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.files import is_there
from sarameya_handlers.landing.numbered import last_number
from sarameya_handlers.spark.delta.checkpoints import checkpointed, transactions_in
from sarameya_handlers.spark.delta.commits import APP_PREFIX, Commit
from sarameya_handlers.spark.delta.errors import is_missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIRST_PAGE = 64
_PAGES_GROW = 16
_KEPT = 20_000
"""Commits that are kept in memory at most, a few hundred bytes each."""
_ABOVE_ALL = 1 << 62
_COMMIT_FILE = re.compile(r"\d{20}\.json")
_COMMIT_INFO = '{"commitInfo":'


class DeltaLog:
    """`table` is its name in SQL. Used by several threads at once: what is kept is replaced, never changed."""

    def __init__(self, table: str) -> None:
        self._table = table
        self.directory: Path | None = None
        """Where the log is read from; None while it is read by SQL."""
        self._kept: tuple[Commit, ...] = ()

    def is_at(self, root: Path) -> None:
        """Read the log of the table below this directory from now on, which is the one that Spark sees."""
        self.directory = root / "_delta_log"

    def commits(self, spark: SparkSession) -> Iterator[Commit]:
        """From the newest one backwards, as long as there are any; none where there is no table."""
        kept = self._kept = self._renewed(spark)
        yield from kept
        if kept and kept[-1].version == 0:
            return
        older: list[Commit] = []
        try:
            for commit in self._read(spark, kept):
                if len(kept) + len(older) < _KEPT:
                    older.append(commit)
                yield commit
        finally:
            # Also where the caller has had enough.
            self._kept = (*kept, *older)

    def newest(self, spark: SparkSession) -> int:
        """The table's newest version; -1 where there is no table."""
        self._kept = kept = self._renewed(spark)
        return kept[0].version if kept else next((commit.version for commit in self._read(spark, ())), -1)

    def transactions(self, spark: SparkSession, location: str) -> dict[str, int]:
        """Return the `txn` version of each chain, by appId. It outlives the history.

        Read from the last checkpoint on, where the log is a directory that we see, and that is one of the usual kind;
        else by Spark, in the whole log of the table at `location`.
        """
        if self.directory is not None:
            found = transactions_in(self.directory, self.newest(spark))
            if found is not None:
                return found
        return _transactions_by_spark(spark, location)

    def _renewed(self, spark: SparkSession) -> tuple[Commit, ...]:
        """What is kept, with all that has been committed since; nothing of a table that is not there any more."""
        kept = self._kept
        newer: list[Commit] = []
        for commit in self._read(spark, ()) if kept else ():
            if commit == kept[0]:
                return (*newer, *kept)[:_KEPT]
            if commit.version <= kept[0].version:
                break
            newer.append(commit)
        return tuple(newer)

    def _read(self, spark: SparkSession, after: tuple[Commit, ...]) -> Iterator[Commit]:
        """All commits, or those that come after (so, are older than) these."""
        if self.directory is not None:
            return self._files(self.directory, after)
        return self._pages(spark, after)

    def _pages(self, spark: SparkSession, after: tuple[Commit, ...]) -> Iterator[Commit]:
        limit, below = _FIRST_PAGE, _ABOVE_ALL
        if after:
            below = after[-1].version
            limit += after[0].version - below + _FIRST_PAGE * _PAGES_GROW
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
            limit *= _PAGES_GROW

    def _files(self, directory: Path, after: tuple[Commit, ...]) -> Iterator[Commit]:
        version = after[-1].version - 1 if after else self._newest(directory)
        while version >= 0:
            try:
                commit = _of_file(directory / _file_name(version), version)
            except FileNotFoundError:
                return
            yield commit
            version -= 1

    def _newest(self, directory: Path) -> int:
        """The newest version; -1 where there is no table."""
        kept = self._kept  # of other threads', too
        if kept and _has(directory, kept[0].version):
            return last_number(partial(_has, directory), kept[0].version)
        for known in (checkpointed(directory), 0):
            if known is not None and _has(directory, known):
                # A log has no gaps.
                return last_number(partial(_has, directory), known)
        try:
            names = [entry.name for entry in os.scandir(directory) if _COMMIT_FILE.fullmatch(entry.name)]
        except FileNotFoundError:
            return -1
        return int(max(names)[:20]) if names else -1


def _of_row(row: Any) -> Commit:
    return Commit.of(
        row.version,
        stamp=str(row.timestamp),
        operation=row.operation or "",
        parameters=row.operationParameters or {},
        metrics=row.operationMetrics or {},
        metadata=row.userMetadata,
    )


def _of_file(path: Path, version: int) -> Commit:
    told = _commit_info(path)
    return Commit.of(
        version,
        stamp=str(told.get("timestamp", "")),
        operation=told.get("operation") or "",
        parameters=told.get("operationParameters") or {},
        metrics=told.get("operationMetrics") or {},
        metadata=told.get("userMetadata"),
    )


def _commit_info(path: Path) -> dict[str, Any]:
    """Of a commit's file, in which it stands first, as a rule. Some writers leave it out."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(_COMMIT_INFO):
                try:
                    return msgspec.json.decode(line, type=dict[str, dict[str, Any]])["commitInfo"]
                except msgspec.MsgspecError as error:
                    raise BrokenChainError(f"{path} is no commit of Delta's: {error}") from error
    return {}


def commit_file(root: Path, version: int) -> Path:
    """Of a table's version."""
    return root / "_delta_log" / _file_name(version)


def _file_name(version: int) -> str:
    return f"{version:020d}.json"


def _has(directory: Path, version: int) -> bool:
    return is_there(directory / _file_name(version))


def _transactions_by_spark(spark: SparkSession, location: str) -> dict[str, int]:
    """A job of Spark's over the whole log. Each of its files says what was newest once, and versions only rise."""
    newest: dict[str, int] = {}
    log = f"{location.rstrip('/')}/_delta_log"
    for read in (_json_txns, _checkpoint_txns):
        for app, version in _collected(read, spark, log):
            newest[app] = max(version, newest.get(app, 0))
    return newest


def _json_txns(spark: SparkSession, log: str) -> DataFrame:
    return spark.read.schema("txn struct<appId: string, version: bigint>").json(f"{log}/*.json")


def _checkpoint_txns(spark: SparkSession, log: str) -> DataFrame:
    return spark.read.parquet(f"{log}/*.checkpoint*.parquet")


def _collected(read: Any, spark: SparkSession, log: str) -> list[tuple[str, int]]:
    try:
        frame = read(spark, log)
    except Exception as error:
        if is_missing(error):
            return []
        raise
    ours = frame.where(f"startswith(txn.appId, '{APP_PREFIX}')")
    found = ours.selectExpr("txn.appId as app", "txn.version as version").groupBy("app").max("version").collect()
    return [(row[0], row[1]) for row in found]
