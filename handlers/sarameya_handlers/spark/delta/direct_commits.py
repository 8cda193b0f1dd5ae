"""Commits that this process writes into a Delta log itself. One takes about ten milliseconds, through Spark a second.

    staged, or written by Spark ─► part-00000-<attempt>-c000.snappy.parquet, synced to disk
    read the log ─► the chain ends before this link, at version v ─► put v + 1 if absent: add, txn, link
                                                                     (not absent: read the log again)

No other commit can come between version v, which was read, and v + 1: no rival's link, no RESTORE, no new column. Spark
gives no such guarantee: on a plain file system, and on S3, it checks that a commit's file is absent, and may then
replace one that was created in between. So on a file system only the process that holds the table's lease (lease.py)
commits this way, and its own Spark makes no commit meanwhile. On S3 any number of processes do, and no Spark.

On a file system Spark still makes each commit to tables with further requirements (commit_rules.py). For other tables
it makes each hundredth commit: with it, Spark writes a checkpoint and cleans up the log, according to the table's
properties. On S3 such tables are refused, and delta-rs writes the checkpoints.
"""

from __future__ import annotations

import errno
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs

from sarameya import __version__
from sarameya_handlers.landing.errors import UnansweredError
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.delta.commit_rules import CommitRules
from sarameya_handlers.spark.delta.file_statistics import NO_FILE, FileStatistics
from sarameya_handlers.spark.delta.history.checkpoints import commit_file
from sarameya_handlers.spark.delta.history.commits import CommitMark, app_id, commit_content, txn_version
from sarameya_handlers.spark.delta.row_files import RowFile
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.group_lock import GroupLock
from sarameya_handlers.spark.tables.table import Landing

_MEETING_SECONDS = (0.05, 0.5)
"""Shortest and longest wait after concurrent puts have collided and all failed."""
_MOST_MEETINGS = 20
"""Maximum of such waits of one attempt."""
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
    """Appends to the table in `store`. Thread-safe."""

    store: Store
    has_checkpoints_by_spark: bool = True
    """True if Spark makes each commit that has a checkpoint. On S3 it makes none (checkpointing.py)."""
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
                _changes_table(self.store.get(commit_file(new))) for new in new_versions
            ):
                self._rules = load_rules()
            self._rules_version = version
            return self._rules

    def _note(self, version: int) -> None:
        """Note that this version, which was just committed, leaves the rules as they are."""
        with self._rules_lock:
            if self._rules_version == version - 1:
                self._rules_version = version

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
        file, meetings = "", _MOST_MEETINGS
        try:
            while isinstance(mark := read_mark(), CommitMark):
                rules = self.rules(mark.seen, load_rules)
                if rules is None or not self._is_allowed(rules, mark.seen + 1, rows):
                    return CommitOutcome.LEFT_TO_SPARK
                if rows is not None and not file:
                    file = self._add_to_table(landing, rows.file)
                on_ready()
                statistics = NO_FILE
                if rows is not None:
                    statistics = FileStatistics.of(rows.footer, rows.size, rules.indexed)
                try:
                    is_made = self._put(mark.seen + 1, _actions(landing, mark, file, statistics), rows, file)
                except OSError as error:
                    if isinstance(error, UnansweredError) or error.errno != errno.EAGAIN or not meetings:
                        raise
                    meetings -= 1
                    time.sleep(random.uniform(*_MEETING_SECONDS))
                    continue
                if is_made:
                    self._note(mark.seen + 1)
                    return CommitOutcome.MADE
            return mark
        except FileNotFoundError as error:
            raise LandingError(f"{landing}: a sweep removed its files while its process slept") from error
        finally:
            if rows is not None and file and not rows.is_in_table:
                # If this fails, a sweep removes the file later. The link's outcome matters more than this error.
                with suppress(OSError):
                    self.store.remove(file)

    def _is_allowed(self, rules: CommitRules, version: int, rows: RowFile | None) -> bool:
        """Return whether this version can be committed without Spark."""
        # Version 0 creates the table.
        if version == 0 or (version % rules.checkpoint_interval == 0 and self.has_checkpoints_by_spark):
            return False
        return rows is None or rules.accepts(rows.columns)

    def is_checkpoint(self, version: int) -> bool:
        """Return whether this version, which was just committed, is to have a checkpoint that is not Spark's."""
        rules = self._rules
        return not self.has_checkpoints_by_spark and rules is not None and version % rules.checkpoint_interval == 0

    def _put(self, version: int, content: bytes, rows: RowFile | None, file: str) -> bool:
        """Put a commit if its version is free. Return whether it is there."""
        name = commit_file(version)
        if rows is not None:
            rows.is_in_table = True  # until the opposite is known
        try:
            is_made = self.store.put_if_absent(name, content, partial(self._require, file) if file else lambda: None)
        except UnansweredError:
            raise
        except OSError:
            if rows is not None:
                rows.is_in_table = False
            raise
        # A request that was sent twice, on its way, fails the second time.
        is_made = is_made or self.store.get(name) == content
        if rows is not None:
            rows.is_in_table = is_made
        return is_made

    def _add_to_table(self, landing: Landing, source: Path | str) -> str:
        """Give the file its name in the table, durably."""
        # A name as Delta's writers give: `leftovers` recognizes data files by it.
        name = f"part-00000-{UUID(landing.link.attempt)}-c000"
        try:
            if isinstance(source, Path):
                name += ".snappy.parquet"
                self.store.copy_in(source, name)  # Spark may still have to read the staged file
            elif self.store.moves_by_copy:
                return source
            else:
                name += "".join(Path(source).suffixes[-2:])
                self.store.move([(source, name)])
            self.store.sync_files("", [name])
        except OSError:
            with suppress(OSError):
                self.store.remove(name)
            raise
        return name

    def _require(self, file: str) -> None:
        """Raise FileNotFoundError if a sweep removed a file as abandoned while this process slept."""
        if not self.store.is_there(file):
            raise FileNotFoundError(errno.ENOENT, "a sweep removed it", file)


_locks: dict[str, GroupLock] = {}
_locks_guard = threading.Lock()


def commit_lock(store: Store) -> GroupLock:
    """Return this process's lock for commits to the table there, by Spark or by a `DirectCommitter`."""
    place = str(store.root.resolve()) if isinstance(store, LocalStore) else store.place
    with _locks_guard:
        return _locks.setdefault(place, GroupLock())


def _changes_table(commit: bytes | None) -> bool:
    """Return whether a commit changes more than rows. True also if its file was removed, since then it is unknown."""
    return commit is None or any(line.startswith(_TABLE_CHANGES) for line in BytesIO(commit))


def _actions(landing: Landing, mark: CommitMark, file: str, statistics: FileStatistics) -> bytes:
    """Return the content of a commit that appends a link."""
    now = time.time_ns() // 1_000_000
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
                    "numFiles": str(int(bool(file))),
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
    if file:
        add = {
            "path": file,
            "partitionValues": {},
            "size": statistics.size,
            "modificationTime": now,
            "dataChange": True,
            "stats": statistics.statistics,
        }
        actions.append({"add": add})
    return commit_content(actions)
