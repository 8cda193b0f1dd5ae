"""Commits that this process writes into a Delta log itself. One takes about ten milliseconds, through Spark a second.

    staged, or written by Spark ─► part-00000-<attempt>-c000.snappy.parquet, synced to disk
    read the log ─► the chain ends before this link, at version v ─► put v + 1 if absent: add, txn, link
                                                                     (not absent: read the log again)

No other commit can come between version v, which was read, and v + 1: no rival's link, no RESTORE, no new column. Spark
gives no such guarantee: on a plain file system it checks that a commit's file is absent, and may then replace one that
was created in between. So only the process that holds the table's lease (lease.py) commits this way, and its own Spark
makes no commit meanwhile.

Spark still makes each commit to tables with further requirements (commit_rules.py). For other tables it makes each
hundredth commit: with it, Spark writes a checkpoint and cleans up the log, according to the table's properties.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs

from sarameya import __version__
from sarameya_handlers.landing.files import UnansweredError, put_if_absent, sync
from sarameya_handlers.spark.delta.commit_rules import CommitRules
from sarameya_handlers.spark.delta.file_statistics import NO_FILE, FileStatistics
from sarameya_handlers.spark.delta.history.commits import CommitMark, app_id, txn_version
from sarameya_handlers.spark.delta.history.log import commit_file
from sarameya_handlers.spark.delta.row_files import RowFile
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.group_lock import GroupLock
from sarameya_handlers.spark.tables.table import Landing

_TABLE_CHANGES = (b'{"metaData":', b'{"protocol":')
"""Starts of the lines of a commit that change more than rows."""


class CommitOutcome(Enum):
    """Outcome of a direct commit, as far as this process knows. Only the log shows the true outcome."""

    MADE = auto()
    LOST = auto()
    """Another attempt has appended the link."""
    LEFT_TO_SPARK = auto()
    """Nothing was written: Spark has to make this commit."""


LoadRules = Callable[[], CommitRules | None]
ReadMark = Callable[[], CommitMark | CommitOutcome]


@attrs.define(slots=True)
class DirectCommitter:
    """Appends to the table in the directory `root`. Thread-safe."""

    root: Path
    _rules_version: int = attrs.field(default=-1, init=False)
    """The version for which `_rules` was loaded."""
    _rules: CommitRules | None = attrs.field(default=None, init=False)
    _rules_lock: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)

    def rules(self, version: int, load_rules: LoadRules) -> CommitRules | None:
        """Return the rules of the table at its newest version; None if Spark must make each commit.

        Args:
            version: The table's newest version.
            load_rules: Loads the rules through Spark. Called only if they may have changed.
        """
        with self._rules_lock:
            new_versions = range(self._rules_version + 1, version + 1)
            if not 0 <= self._rules_version <= version or any(
                _changes_table(commit_file(self.root, new)) for new in new_versions
            ):
                self._rules = load_rules()
            self._rules_version = version
            return self._rules

    def append(
        self,
        landing: Landing,
        rows: RowFile | None,
        *,
        read_mark: ReadMark,
        load_rules: LoadRules,
        on_ready: Callable[[], None],
    ) -> CommitOutcome:
        """Commit the rows and the link. As with Spark, returning does not prove that the commit is in the table.

        Args:
            landing: The attempt.
            rows: The attempt's rows; None if it has none.
            read_mark: Reads the log. Returns the mark to write, or the outcome if there is nothing to write.
            load_rules: Loads the table's commit rules.
            on_ready: Called right before the commit.

        Raises:
            OSError: The commit failed.
            UnansweredError: It is unknown whether the commit was made.
            LandingError: A sweep removed the rows' file as abandoned.
        """
        file: Path | None = None
        is_committed = False
        try:
            while isinstance(mark := read_mark(), CommitMark):
                rules = self.rules(mark.seen, load_rules)
                if rules is None or not _is_allowed(rules, mark.seen + 1, rows):
                    return CommitOutcome.LEFT_TO_SPARK
                if rows is not None and file is None:
                    file = self._add_to_table(landing, rows.file)
                on_ready()
                content = _content(landing, mark, file, rules)
                is_committed = put_if_absent(commit_file(self.root, mark.seen + 1), content, partial(_require, file))
                if is_committed:
                    return CommitOutcome.MADE
            return mark
        except UnansweredError:
            is_committed = True
            raise
        except FileNotFoundError as error:
            raise LandingError(f"{landing}: a sweep removed its files while its process slept") from error
        finally:
            if file is not None and not is_committed:
                _unlink(file)

    def _add_to_table(self, landing: Landing, source: Path) -> Path:
        """Move the file into the table's directory, under a data file's name, and sync it to disk."""
        # A name as Delta's writers give: `leftovers` recognizes data files by it.
        suffix = "".join(source.suffixes[-2:]) if source != landing.staged else ".snappy.parquet"
        file = self.root / f"part-00000-{UUID(landing.link.attempt)}-c000{suffix}"
        if source == landing.staged:
            file.hardlink_to(source)  # Spark may still have to read the staged file
        else:
            source.rename(file)
        try:
            sync(file)
            sync(self.root)
        except OSError:
            file.unlink()
            raise
        return file


def _is_allowed(rules: CommitRules, version: int, rows: RowFile | None) -> bool:
    """Return whether this version can be committed without Spark."""
    # Version 0 creates the table.
    if version % rules.checkpoint_interval == 0:
        return False
    return rows is None or rules.accepts(rows.columns)


_locks: dict[Path, GroupLock] = {}
_locks_guard = threading.Lock()


def commit_lock(root: Path) -> GroupLock:
    """Return this process's lock for commits to the table in that directory, by Spark or by a `DirectCommitter`."""
    with _locks_guard:
        return _locks.setdefault(root.resolve(), GroupLock())


def _require(file: Path | None) -> None:
    """Raise FileNotFoundError if a sweep removed the file as abandoned while this process slept."""
    if file is not None:
        file.stat()


def _unlink(file: Path) -> None:
    # If this fails, a sweep removes the file later. The link's outcome matters more than this error.
    with suppress(OSError):
        file.unlink()


def _changes_table(commit: Path) -> bool:
    """Return whether a commit changes more than rows. True also if its file was removed, since then it is unknown."""
    try:
        with commit.open("rb") as lines:
            return any(line.startswith(_TABLE_CHANGES) for line in lines)
    except FileNotFoundError:
        return True


def _content(landing: Landing, mark: CommitMark, file: Path | None, rules: CommitRules) -> bytes:
    """Return the content of the commit's file: one JSON action per line (Delta protocol, Actions)."""
    now = time.time_ns() // 1_000_000
    statistics = NO_FILE if file is None else FileStatistics.of(file, rules.indexed)
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
                    "numOutputRows": str(statistics.rows),
                    "numOutputBytes": str(statistics.size),
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
        add = {
            "path": file.name,
            "partitionValues": {},
            "size": statistics.size,
            "modificationTime": now,
            "dataChange": True,
            "stats": statistics.statistics,
        }
        actions.append({"add": add})
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()
