"""Staged records become a file of a Delta table's as they are, by a commit of delta-rs: no job of Spark's, and some ten
milliseconds.

    staged ─► part-00000-<attempt>-c000.snappy.parquet ─► on the disk ─► add, txn, the link's metadata ─► on the disk

The swap is that of Spark's own commits: none is tried once the table has a `txn` of the chain that is as high, and
delta-rs refuses one beside which another has changed it since the table was looked at. delta-rs puts a commit's file
where there is none, in one step; Spark, on a plain file system, looks first, and may then put its own over one that
came between. So this is for who holds the table's lease (lease.py), whose own Spark waits meanwhile (commit_turns.py).

Tables that ask more of who writes than these columns are Spark's to write: constraints, generated columns, partitions,
columns that are mapped, and so on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import attrs

from sarameya_handlers.landing.files import sync
from sarameya_handlers.spark.delta.commits import Mark, app_id, txn_version
from sarameya_handlers.spark.delta.file_facts import columns_of, holds, statistics
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.table import Landing

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

logger = logging.getLogger("sarameya.spark")

_WRITER = 3
"""Up to this writer version a table asks for nothing but appendOnly, invariants and constraints,"""
_FEATURES = frozenset({"appendOnly", "invariants", "checkConstraints"})
"""which a table of features names; invariants are in columns' metadata, constraints among the properties."""
_CONSTRAINTS = "delta.constraints."


class CommitError(LandingError):
    """A commit of delta-rs's has failed: whether it is in the log, the log says."""

    passes = True


def is_installed() -> bool:
    """Whether delta-rs is (the package `deltalake`)."""
    return find_spec("deltalake") is not None


@attrs.frozen(slots=True)
class Adopter:
    """Appends to the table in this directory."""

    root: Path

    def append(self, landing: Landing, mark: Mark) -> bool:
        """One commit, with the staged file, and the link; False where the table is Spark's to write. As with Spark, a
        return does not say that it came to be. Raises CommitError and OSError."""
        from deltalake.exceptions import CommitFailedError, DeltaError

        try:
            table = _opened(self.root)
            if not _takes(table, landing.staged):
                return False
        except DeltaError as error:
            # It does not know what Spark may: a feature, or how a property is written.
            logger.debug("delta-rs cannot read %s, Spark is to land in it: %s", self.root, error)
            return False
        try:
            app, version = app_id(landing.link.key), txn_version(mark.term, landing.link.number)
            if (table.transaction_version(app) or 0) >= version:
                logger.info("%s: another commit came first", landing)
                return True
            self._commit(table, landing, mark, app, version)
        except CommitFailedError as error:
            logger.info("%s: another commit came first (%s)", landing, error)
        except DeltaError as error:
            raise CommitError(f"{landing}: delta-rs cannot commit to {self.root}: {error}") from error
        return True

    def _commit(self, table: DeltaTable, landing: Landing, mark: Mark, app: str, version: int) -> None:
        from deltalake import CommitProperties, Transaction

        file = None if landing.staged is None else self._given_a_name(landing)
        told = {"userMetadata": mark.to_json(), "operationMetrics": _metrics(landing, file)}
        table.create_write_transaction(
            [] if file is None else [_added(file)],
            "append",
            table.schema(),
            partition_by=table.metadata().partition_columns,
            commit_properties=CommitProperties(told, app_transactions=[Transaction(app, version)]),
        )
        _sync_log(self.root / "_delta_log", since=table.version() + 1)

    def _given_a_name(self, landing: Landing) -> Path:
        """The staged file, as one of the table's, on the disk."""
        assert landing.staged is not None
        # As Delta's other writers name them, which is what `leftovers` goes by.
        file = landing.staged.rename(self.root / f"part-00000-{UUID(landing.link.attempt)}-c000.snappy.parquet")
        sync(file)
        sync(self.root)
        return file


def _opened(root: Path) -> DeltaTable:
    """Anew each time: a table that was made anew meanwhile must not be taken for the one before."""
    from deltalake import DeltaTable

    return DeltaTable(root)


def _sync_log(log: Path, since: int) -> None:
    """Ours may not be the first commit since the table was opened: which it is, delta-rs does not say."""
    while (commit := log / f"{since:020}.json").exists():
        sync(commit)
        since += 1
    sync(log)


def _takes(table: DeltaTable, staged: Path | None) -> bool:
    protocol, metadata = table.protocol(), table.metadata()
    if protocol.min_writer_version > _WRITER and not _FEATURES.issuperset(protocol.writer_features or {"unknown"}):
        return False
    if any(name.startswith(_CONSTRAINTS) for name in metadata.configuration):
        return False
    return staged is None or (not metadata.partition_columns and holds(table.schema(), columns_of(staged)))


def _added(file: Path) -> AddAction:
    from deltalake.transaction import AddAction

    return AddAction(
        path=file.name,
        size=file.stat().st_size,
        partition_values={},
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=statistics(file),
    )


def _metrics(landing: Landing, file: Path | None) -> Mapping[str, str]:
    """As Spark's commits tell them."""
    size = 0 if file is None else file.stat().st_size
    return {
        "numFiles": str(int(file is not None)),
        "numOutputRows": str(landing.records),
        "numOutputBytes": str(size),
    }
