"""A landing's file becomes one of a Delta table's by a commit of our own: some ten milliseconds in place of a second.

    staged, or written by Spark ─► part-00000-<attempt>-c000.snappy.parquet, on the disk
    read the log ─► the chain ends before this link, at version v ─► put v + 1 if absent: add, txn, the link ─► or again

What is put right behind the version that was read has nothing in between: neither a rival's link, nor a RESTORE, nor a
column more. Spark, on a plain file system, looks whether a commit's file is there, and may then put its own over one
that came between: so this is for the process that holds the table's lease (lease.py), whose own Spark waits meanwhile.

Tables that ask more of who commits (terms.py) are Spark's to commit to. So is each hundredth commit, with which Spark
writes a checkpoint and cleans up the log, as the table's properties say.
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
from sarameya_handlers.spark.delta.commits import Mark, app_id, txn_version
from sarameya_handlers.spark.delta.file_facts import NONE, Facts
from sarameya_handlers.spark.delta.log import commit_file
from sarameya_handlers.spark.delta.rows import Rows
from sarameya_handlers.spark.delta.terms import Terms
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.group_lock import GroupLock
from sarameya_handlers.spark.tables.table import Landing

_CHANGES = (b'{"metaData":', b'{"protocol":')


class Adoption(Enum):
    """What has become of it, as far as is known: the log says."""

    MADE = auto()
    LOST = auto()
    """Another attempt has landed the link."""
    SPARKS = auto()
    """Nothing was done: this commit is Spark's."""


Ask = Callable[[], Terms | None]
Read = Callable[[], Mark | Adoption]


@attrs.define(slots=True)
class Adopter:
    """Appends to the table in the directory `root`, for several threads at once."""

    root: Path
    _asked: int = attrs.field(default=-1, init=False)
    """The version as of which `_terms` are known."""
    _terms: Terms | None = attrs.field(default=None, init=False)
    _asking: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)

    def terms(self, version: int, ask: Ask) -> Terms | None:
        """Those of the table as it is at this version, its newest; None where each commit is Spark's. `ask` asks Spark,
        where they may have changed."""
        with self._asking:
            news = range(self._asked + 1, version + 1)
            if not 0 <= self._asked <= version or any(_changes_table(commit_file(self.root, one)) for one in news):
                self._terms = ask()
            self._asked = version
            return self._terms

    def append(
        self, landing: Landing, rows: Rows | None, *, read: Read, ask: Ask, ready: Callable[[], None]
    ) -> Adoption:
        """Commit these rows, and the link. As with Spark, a return does not say that it came to be.

        `read` reads the log: the link's mark as it is to be now, or what has become of it. `ready` is called right
        before the commit. Raises OSError, UnansweredError where it is not known whether the commit was made,
        LandingError where a sweep took it for an abandoned one, and what those three raise.
        """
        file: Path | None = None
        stays = False
        try:
            while isinstance(mark := read(), Mark):
                terms = self.terms(mark.seen, ask)
                if terms is None or not _takes(terms, mark.seen + 1, rows):
                    return Adoption.SPARKS
                if rows is not None and file is None:
                    file = self._named(landing, rows.file)
                ready()
                content = _content(landing, mark, file, terms)
                stays = put_if_absent(commit_file(self.root, mark.seen + 1), content, partial(_require, file))
                if stays:
                    return Adoption.MADE
            return mark
        except UnansweredError:
            stays = True
            raise
        except FileNotFoundError as error:
            raise LandingError(f"{landing}: a sweep removed its files while its process slept") from error
        finally:
            if file is not None and not stays:
                _unlink(file)

    def _named(self, landing: Landing, source: Path) -> Path:
        """The file under a name of the table's, on the disk."""
        # As Delta's writers name theirs, by which `leftovers` tells those that no commit names.
        packed = "".join(source.suffixes[-2:]) if source != landing.staged else ".snappy.parquet"
        file = self.root / f"part-00000-{UUID(landing.link.attempt)}-c000{packed}"
        if source == landing.staged:
            file.hardlink_to(source)  # Spark may still have to read it
        else:
            source.rename(file)
        try:
            sync(file)
            sync(self.root)
        except OSError:
            file.unlink()
            raise
        return file


def _takes(terms: Terms, version: int, rows: Rows | None) -> bool:
    """Whether this version, the next one, need not be Spark's."""
    # Version 0 makes the table.
    if version % terms.checkpoint_interval == 0:
        return False
    return rows is None or terms.take(rows.columns)


_locks: dict[Path, GroupLock] = {}
_locking = threading.Lock()


def lock_of(root: Path) -> GroupLock:
    """Of who commits to the table in this directory, in this process: by Spark, or by `Adopter`s."""
    with _locking:
        return _locks.setdefault(root.resolve(), GroupLock())


def _require(file: Path | None) -> None:
    """Raises FileNotFoundError where a sweep took the file for an abandoned one while this process slept."""
    if file is not None:
        file.stat()


def _unlink(file: Path) -> None:
    # Else a sweep removes it; what has become of the link is more important to know.
    with suppress(OSError):
        file.unlink()


def _changes_table(commit: Path) -> bool:
    """Whether a commit has to do with more than rows, or is gone, so that nobody knows."""
    try:
        with commit.open("rb") as lines:
            return any(line.startswith(_CHANGES) for line in lines)
    except FileNotFoundError:
        return True


def _content(landing: Landing, mark: Mark, file: Path | None, terms: Terms) -> bytes:
    """Of the commit's file: actions, in JSON, a line each (Delta protocol, Actions)."""
    now = time.time_ns() // 1_000_000
    facts = NONE if file is None else Facts.of(file, terms.indexed)
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
                    "numOutputRows": str(facts.rows),
                    "numOutputBytes": str(facts.size),
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
            "size": facts.size,
            "modificationTime": now,
            "dataChange": True,
            "stats": facts.statistics,
        }
        actions.append({"add": added})
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()
