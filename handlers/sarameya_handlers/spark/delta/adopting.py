"""Staged records become a file of a Delta table's as they are, by a commit of our own: no job of Spark's, and some ten
milliseconds in place of a second.

    staged ─► part-00000-<attempt>-c000.snappy.parquet, on the disk
    read the log ─► the chain ends before this link, at version v ─► put v + 1 if absent: add, txn, the link ─► or again

What is put right behind the version that was read has nothing in between: neither a rival's link, nor a RESTORE, nor a
column more. Spark, on a plain file system, looks whether a commit's file is there, and may then put its own over one
that came between: so this is for the process that holds the table's lease (lease.py), whose own Spark waits meanwhile.

Tables that ask more of who writes than rows of these columns are Spark's to write. So is each hundredth commit, with
which Spark writes a checkpoint and cleans up the log, as the table's properties say.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import attrs

from sarameya import __version__
from sarameya_handlers.landing.files import UnansweredError, put_if_absent, sync
from sarameya_handlers.spark.delta.checks import Detail
from sarameya_handlers.spark.delta.commits import Mark, app_id, txn_version
from sarameya_handlers.spark.delta.file_facts import statistics
from sarameya_handlers.spark.delta.log import commit_file
from sarameya_handlers.spark.tables.group_lock import GroupLock
from sarameya_handlers.spark.tables.table import Landing

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_INTERVAL = "delta.checkpointInterval"
_COMMITS = 100
"""From one checkpoint to the next, where the table does not say. (Spark, which has 10 then, writes one there, too.)"""
_FEATURES = frozenset({"appendOnly", "invariants", "checkConstraints"})
"""Invariants are in columns' metadata, constraints among the properties."""
_PROPERTIES = frozenset(
    {
        _INTERVAL,
        "delta.appendOnly",
        "delta.dataSkippingNumIndexedCols",
        "delta.deletedFileRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.logRetentionDuration",
        "delta.minReaderVersion",
        "delta.minWriterVersion",
        *(f"delta.feature.{feature}" for feature in _FEATURES),
    }
)
"""Of Delta's, those that ask nothing of a commit."""
_CHANGES = (b'{"metaData":', b'{"protocol":')


class Adoption(Enum):
    """What has become of it, as far as is known: the log says."""

    MADE = auto()
    LOST = auto()
    """Another attempt has landed the link."""
    SPARKS = auto()
    """Nothing was done: this commit is Spark's."""


def checkpoint_interval(detail: Detail, table: StructType, records: StructType) -> int | None:
    """Each how many commits Spark is to make one, for its checkpoint, where a file of records is one of the table's as
    it is, and a commit need say no more than that it is there; None where each commit is Spark's."""
    if detail.partition_columns or not _FEATURES.issuperset(detail.features):
        return None
    if any(name.startswith("delta.") and name not in _PROPERTIES for name in detail.properties):
        return None
    if {field.name: field for field in table.fields} != {field.name: field for field in records.fields}:
        return None
    return int(detail.properties.get(_INTERVAL, _COMMITS))


@attrs.define(slots=True)
class Adopter:
    """Appends to the table in the directory `root`, for several threads at once."""

    root: Path
    _asked: int = attrs.field(default=-1, init=False)
    """The version as of which `_interval` is known."""
    _interval: int | None = attrs.field(default=None, init=False)
    _asking: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)

    def append(
        self,
        landing: Landing,
        *,
        read: Callable[[], Mark | None],
        ask: Callable[[], int | None],
        ready: Callable[[], None],
    ) -> Adoption:
        """Commit the staged file, and the link. As with Spark, a return does not say that it came to be.

        `read` reads the log: the link's mark as it is to be now, None where another attempt has landed it. `ask` asks
        Spark for the `checkpoint_interval` of the table as it is. `ready` is called right before the commit. Raises
        OSError, UnansweredError where it is not known whether the commit was made, and what those three raise.
        """
        file = self._named(landing)
        try:
            adoption = self._commit(landing, file, read, ask, ready)
        except UnansweredError:
            raise
        except BaseException:
            _unlink(file)
            raise
        if adoption is not Adoption.MADE:
            _unlink(file)
        return adoption

    def _commit(
        self,
        landing: Landing,
        file: Path | None,
        read: Callable[[], Mark | None],
        ask: Callable[[], int | None],
        ready: Callable[[], None],
    ) -> Adoption:
        while (mark := read()) is not None:
            if not self._takes(mark.seen + 1, ask):
                return Adoption.SPARKS
            ready()
            if put_if_absent(commit_file(self.root, mark.seen + 1), _content(landing, mark, file)):
                return Adoption.MADE
        return Adoption.LOST

    def _takes(self, version: int, ask: Callable[[], int | None]) -> bool:
        """Whether this version, the next one, need not be Spark's."""
        with self._asking:
            news = range(self._asked + 1, version)
            if not 0 <= self._asked < version or any(_changes_table(commit_file(self.root, one)) for one in news):
                self._interval = ask()
            self._asked = version - 1
            # Version 0 makes the table.
            return bool(version and self._interval and version % self._interval)

    def _named(self, landing: Landing) -> Path | None:
        """The staged file under a name of the table's as well, on the disk."""
        if landing.staged is None:
            return None
        # As Delta's writers name theirs, by which `leftovers` tells those that no commit names.
        file = self.root / f"part-00000-{UUID(landing.link.attempt)}-c000.snappy.parquet"
        file.hardlink_to(landing.staged)
        try:
            sync(file)
            sync(self.root)
        except OSError:
            file.unlink()
            raise
        return file


_locks: dict[Path, GroupLock] = {}
_locking = threading.Lock()


def lock_of(root: Path) -> GroupLock:
    """Of who commits to the table in this directory, in this process: by Spark, or by `Adopter`s."""
    with _locking:
        return _locks.setdefault(root.resolve(), GroupLock())


def _unlink(file: Path | None) -> None:
    # Else a sweep removes it; what has become of the link is more important to know.
    with suppress(OSError):
        if file is not None:
            file.unlink()


def _changes_table(commit: Path) -> bool:
    """Whether a commit has to do with more than rows, or is gone, so that nobody knows."""
    try:
        with commit.open("rb") as lines:
            return any(line.startswith(_CHANGES) for line in lines)
    except FileNotFoundError:
        return True


def _content(landing: Landing, mark: Mark, file: Path | None) -> bytes:
    """Of the commit's file: actions, in JSON, a line each (Delta protocol, Actions)."""
    now = time.time_ns() // 1_000_000
    size = 0 if file is None else file.stat().st_size
    actions: list[dict[str, Any]] = [
        {
            "commitInfo": {
                "timestamp": now,
                "operation": "WRITE",
                "operationParameters": {"mode": "Append", "partitionBy": "[]"},
                "readVersion": mark.seen,
                "isolationLevel": "Serializable",
                "isBlindAppend": True,
                "operationMetrics": {
                    "numFiles": str(int(file is not None)),
                    "numOutputRows": str(landing.records),
                    "numOutputBytes": str(size),
                },
                "userMetadata": mark.to_json(),
                "engineInfo": f"Sarameya/{__version__}",
            }
        },
        {
            "txn": {
                "appId": app_id(landing.link.key),
                "version": txn_version(mark.term, landing.link.number),
                "lastUpdated": now,
            }
        },
    ]
    if file is not None:
        added = {
            "path": file.name,
            "partitionValues": {},
            "size": size,
            "modificationTime": now,
            "dataChange": True,
            "stats": statistics(file),
        }
        actions.append({"add": added})
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()
