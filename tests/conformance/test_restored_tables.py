"""Tables that are restored to an older state: a starting owner refuses them, and a landing owner stops."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sarameya import CommittedOffset
from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.chain import Outcome
from sarameya_handlers.landing.chain_start import Log, choose_chain_start
from sarameya_handlers.landing.errors import ChainError, RewoundTableError
from sarameya_handlers.landing.links import CommitNote
from sarameya_handlers.spark.tables.table import Table
from tests.conformance.contenders import Contender, Place, each
from tests.conformance.owners import KEY, ORIGIN, Owner

pytestmark = pytest.mark.landing(what="restored")

Restore = Callable[[], object]


def backup(table: Table, spark: Any, place: Place) -> Restore:
    """Back up the table as it is now. Return a function that restores it."""
    if isinstance(table, ParquetTable):
        return _backup_of_directory(table.path, place.directory / "backup")
    kind, name = table.name.split(":", 1)
    if kind == "delta":
        version = max(row["version"] for row in spark.sql(f"DESCRIBE HISTORY delta.`{name}`").collect())
        return lambda: spark.sql(f"RESTORE TABLE delta.`{name}` TO VERSION AS OF {version}").collect()
    catalog, _, in_catalog = name.partition(".")
    ((snapshot,),) = spark.sql(f"SELECT snapshot_id FROM {name}.refs WHERE name = 'main'").collect()
    return lambda: spark.sql(f"CALL {catalog}.system.rollback_to_snapshot('{in_catalog}', {snapshot})").collect()


def _backup_of_directory(directory: Path, kept: Path) -> Restore:
    shutil.copytree(directory, kept)

    def restore() -> None:
        shutil.rmtree(directory)
        shutil.copytree(kept, directory)

    return restore


@each("parquet", "delta", "iceberg")
def test_restored_table_stops_new_and_landing_owners(contender: Contender, place: Place) -> None:
    table = contender.table(place)
    with contender.sessions(place, 1) as (spark,):
        table.open(spark)
        owner = Owner(table, spark, contender.shape)
        for _ in range(2):
            assert owner.append(5).outcome is Outcome.LANDED
        restore = backup(table, spark, place)
        for _ in range(2):
            assert owner.append(5).outcome is Outcome.LANDED
        assert owner.chain.head is not None
        committed = CommittedOffset(20, CommitNote.of(owner.chain.head).to_metadata())
        choose_chain_start(KEY, ORIGIN, owner.chain.head, committed, Log(start=0, end=100))
        restore()

        found = contender.table(place).heads(spark, [KEY])[KEY]
        assert (found.number, found.to_offset) == (2, 10)
        with pytest.raises(RewoundTableError):
            choose_chain_start(KEY, ORIGIN, found, committed, Log(start=0, end=100))
        with pytest.raises(ChainError):
            owner.append(5)
