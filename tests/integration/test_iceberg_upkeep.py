"""Upkeep of Iceberg tables between landings, with a real Spark: expiry, compaction, rollback, removal."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from sarameya import HandlerError
from sarameya_handlers.landing.errors import ForgottenChainError
from sarameya_handlers.spark.iceberg import write_audit_publish
from sarameya_handlers.spark.iceberg.marks import chain_marks
from sarameya_handlers.spark.iceberg.table import IcebergTable
from sarameya_handlers.spark.tables.table import Phase
from tests.integration.iceberg_stage import age, land, link, new_name
from tests.integration.lake_stage import EITHER, KEY, OTHER, either, found, rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves the sockets of `collect` to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module", params=EITHER)
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    with either(request) as session:
        yield session


@pytest.fixture
def name() -> str:
    return new_name()


@pytest.fixture
def table(spark: SparkSession, name: str) -> IcebergTable:
    """Return a table that the first landing will create."""
    table = IcebergTable(name)
    table.open(spark)
    return table


def test_published_snapshot_is_no_leftover(spark: SparkSession, table: IcebergTable) -> None:
    land(spark, table, link(1, 0, 5))
    (version,) = (row[0] for row in spark.sql(f"SELECT snapshot_id FROM {table.name[8:]}.history").collect())
    land(spark, table, link(1, 0, 6))
    (leftover,) = table.leftovers(spark)
    with pytest.raises(HandlerError, match="is no leftover: it was published"):
        table.remove(spark, attrs.evolve(leftover, name=f"snapshot {version}"))
    assert rows(table.read(spark)) != []


def test_chain_continues_from_its_head_after_a_rollback(spark: SparkSession, table: IcebergTable, name: str) -> None:
    chain = [link(1, 0, 5), link(2, 5, 8), link(3, 8, 9)]
    for one in chain:
        land(spark, table, one)
    versions = [
        row[0] for row in spark.sql(f"SELECT snapshot_id FROM {name}.history ORDER BY made_current_at").collect()
    ]
    assert table.heads_at(spark, str(versions[1]))[KEY].attempt == chain[1].attempt
    assert rows(table.read(spark, str(versions[1]))) == rows_of(*chain[:2])
    with pytest.raises(HandlerError, match="has no snapshot '12'"):
        table.heads_at(spark, "12")

    catalog, _, rest = name.partition(".")
    spark.sql(f"CALL {catalog}.system.rollback_to_snapshot('{rest}', {versions[0]})")
    assert found(spark, table) == [(1, chain[0].attempt)]
    again = link(2, 5, 7)
    land(spark, table, again)
    assert found(spark, table) == [(1, chain[0].attempt), (2, again.attempt)]
    assert rows(table.read(spark)) == rows_of(chain[0], again)


def test_revoked_chain_is_proved_after_its_snapshots_expired(
    spark: SparkSession, table: IcebergTable, name: str
) -> None:
    head, others = link(1, 0, 5), [link(n, n, n + 1, key=OTHER) for n in (1, 2, 3)]
    land(spark, table, head)
    for one in others:
        land(spark, table, one)
    table.rest(spark, table.heads(spark, [KEY]).values())
    age(spark, name, 1)

    seen = IcebergTable(name)
    assert {key: one.attempt for key, one in seen.heads(spark, [KEY, OTHER]).items()} == {
        KEY: head.attempt,
        OTHER: others[-1].attempt,
    }
    assert rows(seen.read(spark)) == rows_of(head, *others)
    # The next owner continues from there. From then on the stated end does not count.
    seen.open(spark)
    after = link(2, 5, 6)
    land(spark, seen, after)
    assert found(spark, seen) == [(2, after.attempt)]
    land(spark, seen, link(4, 4, 5, key=OTHER))
    age(spark, name, 1)
    with pytest.raises(ForgottenChainError, match="sink/orders-0"):
        IcebergTable(name).heads(spark, [KEY])


def test_chain_end_stated_too_late_is_not_trusted(
    spark: SparkSession, table: IcebergTable, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next owner continues and dies. Then its snapshots and the group's commit expire."""
    first, second = link(1, 0, 5), link(2, 5, 8)
    land(spark, table, first)
    owner = IcebergTable(name)
    owner.open(spark)
    write = write_audit_publish.set_properties

    def sleep_and_write(*arguments: Any) -> None:
        with monkeypatch.context() as awake:
            awake.setattr(write_audit_publish, "set_properties", write)
            land(spark, owner, second)
        write(*arguments)

    with monkeypatch.context() as asleep:
        asleep.setattr(write_audit_publish, "set_properties", sleep_and_write)
        table.rest(spark, [first])
    for n in (1, 2):
        land(spark, table, link(n, n, n + 1, key=OTHER))
    assert found(spark, owner) == [(1, first.attempt), (2, second.attempt)]
    age(spark, name, 1)
    with pytest.raises(ForgottenChainError, match="sink/orders-0"):
        IcebergTable(name).heads(spark, [KEY])


def test_chain_end_is_stated_only_by_the_heads_owner(
    spark: SparkSession, table: IcebergTable, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an owner that read the head earlier could publish the next link afterwards."""

    def is_stated() -> bool:
        properties = {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
        return chain_marks(properties)[KEY][-1].is_rest

    def lose_response(*_: Any, **__: Any) -> None:
        raise ConnectionResetError

    first = link(1, 0, 5)
    land(spark, table, first)
    IcebergTable(name).rest(spark, [first])
    assert not is_stated()
    with monkeypatch.context() as lost, suppress(ConnectionResetError):
        lost.setattr(write_audit_publish, "publish", lose_response)
        land(spark, table, link(2, 5, 8))
    table.rest(spark, [first])
    assert not is_stated()
    last = link(2, 5, 9)
    land(spark, table, last)
    table.rest(spark, [last])
    assert is_stated()


def test_late_attempt_at_a_forgotten_link_is_not_published(spark: SparkSession, table: IcebergTable, name: str) -> None:
    """Iceberg alone would publish it: no snapshot in main's ancestry has its WAP id any more."""
    chain = [link(1, 0, 5), link(2, 5, 8), link(3, 8, 9)]
    for one in chain:
        land(spark, table, one)
    for n in (1, 2):
        land(spark, table, link(n, n, n + 1, key=OTHER))
    late = IcebergTable(name)
    late.open(spark)
    age(spark, name, 3)
    land(spark, late, link(2, 5, 7))
    assert [number for number, _ in found(spark, late)] == [3]
    # The same holds when no snapshot of the chain is left.
    age(spark, name, 1)
    late = IcebergTable(name)
    late.open(spark)
    with pytest.raises(ForgottenChainError):
        land(spark, late, link(3, 8, 9))
    assert [one for one in rows(late.read(spark)) if one[0] == KEY.partition] == rows_of(*chain)


def test_new_chain_starts_in_a_table_with_expired_history(spark: SparkSession, table: IcebergTable, name: str) -> None:
    for n in (1, 2, 3):
        land(spark, table, link(n, n, n + 1, key=OTHER))
    age(spark, name, 1)
    seen, first = IcebergTable(name), link(1, 0, 5)
    seen.open(spark)
    assert seen.heads(spark, [KEY]) == {}
    land(spark, seen, first)
    assert found(spark, seen) == [(1, first.attempt)]


def test_compaction_and_expiry_preserve_chains(spark: SparkSession, table: IcebergTable, name: str) -> None:
    chain = [link(n, n, n + 1) for n in range(1, 7)]
    for one in chain[:5]:
        land(spark, table, one)
    catalog, _, rest = name.partition(".")
    rewrite = f"CALL {catalog}.system.rewrite_data_files(table => '{rest}', options => map('min-input-files', '2'))"
    assert spark.sql(rewrite).collect()[0][0] == 5
    land(spark, table, chain[5])
    spark.sql(f"CALL {catalog}.system.expire_snapshots(table => '{rest}')")

    seen = IcebergTable(name)
    assert found(spark, seen) == [(one.number, one.attempt) for one in chain]
    assert [one.rows for one in seen.links(spark, KEY, 1)] == [1] * 6
    assert rows(seen.read(spark)) == rows_of(*chain)
    assert spark.sql(f"SELECT * FROM {name}.files").count() == 2


def test_landing_continues_during_a_compaction(spark: SparkSession, table: IcebergTable, name: str) -> None:
    """The compaction commits between a landing's staging and its publication."""
    chain = [link(n, n, n + 1) for n in (1, 2, 3)]
    for one in chain[:2]:
        land(spark, table, one)
    catalog, _, rest = name.partition(".")

    def compact(phase: Phase, landings: object) -> None:
        options = "map('min-input-files', '2')"
        spark.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{rest}', options => {options})")

    land(spark, table, chain[2], checkpoint=compact)
    assert found(spark, table) == [(one.number, one.attempt) for one in chain]
    assert rows(table.read(spark)) == rows_of(*chain)


def test_old_orphan_files_are_found_and_removed(spark: SparkSession, table: IcebergTable, name: str) -> None:
    first = link(1, 0, 5)
    land(spark, table, first)
    data = table.staging.directory.parents[1] / "data"
    old, young = data / "old.parquet", data / "young.parquet"
    staged = table.staging.directory / f"{'a' * 32}.parquet"
    for file in (old, young, staged):
        file.write_bytes(b"12345")
    over_a_day_ago = time.time() - 25 * 3600
    os.utime(old, (over_a_day_ago, over_a_day_ago))
    os.utime(staged, (over_a_day_ago, over_a_day_ago))

    leftovers = {one.what: one for one in table.leftovers(spark)}
    assert sorted(leftovers) == ["a file that no snapshot names", "a staged file"]
    for one in leftovers.values():
        assert (one.size_bytes, round(one.changed)) == (5, round(over_a_day_ago))
        table.remove(spark, one)
        table.remove(spark, one)
    assert not old.exists()
    assert not staged.exists()
    assert young.exists()
    (named,) = (row[0] for row in spark.sql(f"SELECT file_path FROM {name}.files").collect())
    table.remove(spark, attrs.evolve(leftovers["a file that no snapshot names"], name=named))
    assert rows(table.read(spark)) == rows_of(first)
    with pytest.raises(HandlerError, match="is no leftover of"):
        table.remove(spark, attrs.evolve(leftovers["a file that no snapshot names"], name="/etc/passwd"))
