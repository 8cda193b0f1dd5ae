"""Reading a table's state through a fake session, which returns the fake metadata of an Iceberg table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import attrs
import pytest
from pyspark.sql import SparkSession

from sarameya import HandlerError
from sarameya_handlers.landing.errors import ForgottenChainError
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.iceberg import table_state
from sarameya_handlers.spark.iceberg.catalog import TableName
from sarameya_handlers.spark.iceberg.marks import ChainMark
from sarameya_handlers.spark.iceberg.table_state import TableState, TableStateReader
from tests.handlers.spark.iceberg.kit import KEY, OTHER, FakeMetadata, link

NAME = TableName.of("ice.db.orders")
BEGUN = ChainMark.begun(KEY, 1, "term")


class _Rows:
    def __init__(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._rows = list(rows)

    def collect(self) -> list[tuple[Any, ...]]:
        return self._rows


@attrs.define
class FakeSpark:
    """Answers the queries of a `TableStateReader`. `queried` has the start time of each query for snapshots."""

    table: FakeMetadata
    properties: dict[str, str] = attrs.field(factory=dict)
    queried: list[int] = attrs.field(factory=list)
    refreshed: int = 0
    counted: int = 0

    def mark(self, *marks: ChainMark) -> None:
        self.properties |= {mark.name: mark.value for mark in marks}

    def sql(self, statement: str) -> _Rows:
        if statement == "SHOW TBLPROPERTIES `ice`.`db`.`orders`":
            current = {"current-snapshot-id": str(self.table.current or "none")}
            return _Rows([*{**self.properties, **current}.items()])
        if statement == "REFRESH TABLE `ice`.`db`.`orders`":
            self.refreshed += 1
            return _Rows([])
        if statement == "SELECT count(*) FROM `ice`.`db`.`orders`.`snapshots`":
            self.counted += 1
            return _Rows([(len(self.table.rows),)])
        match = re.fullmatch(
            r"SELECT .* FROM `ice`.`db`.`orders`.`snapshots` WHERE committed_at >= timestamp_millis\((-?\d+)\)",
            statement,
        )
        assert match, statement
        self.queried.append(int(match[1]))
        return _Rows([row for row in self.table.rows.values() if row[2] >= int(match[1])])


@pytest.fixture
def spark() -> FakeSpark:
    return FakeSpark(FakeMetadata())


def read_state(reader: TableStateReader, spark: FakeSpark, **more: Any) -> TableState:
    return reader.read(cast("SparkSession", spark), is_cached=False, **more)


def test_unchanged_table_is_read_without_snapshots(spark: FakeSpark) -> None:
    reader = TableStateReader(NAME)
    spark.table.land(link(1))
    assert read_state(reader, spark).number(KEY) == 1
    assert read_state(reader, spark).number(KEY) == 1
    assert spark.queried == [0]


def test_only_new_snapshots_are_read(spark: FakeSpark) -> None:
    reader = TableStateReader(NAME)
    for number in (1, 2):
        spark.table.land(link(number))
        spark.table.now += 3_600_000
    read_state(reader, spark)
    spark.table.land(link(3))
    assert read_state(reader, spark).number(KEY) == 3
    assert spark.queried[0] == 0
    assert spark.queried[1] > 0
    assert len(spark.queried) == 2


def test_rollback_to_an_unseen_snapshot_reads_all(spark: FakeSpark) -> None:
    reader, table = TableStateReader(NAME), spark.table
    table.land(link(1))
    hidden = table.commit()
    seen = table.rows.pop(hidden)
    table.current = seen[1]
    table.now += 3_600_000
    table.land(link(2))
    read_state(reader, spark)
    table.rows[hidden], table.current = seen, hidden
    table.now += 3_600_000
    table.land(link(7))
    assert [one.number for one in read_state(reader, spark).history.links(KEY, 1)] == [1, 7]
    assert spark.queried == [0, spark.queried[1], 0]


def test_staged_snapshot_with_an_old_timestamp_is_found(spark: FakeSpark) -> None:
    reader, table, mine = TableStateReader(NAME), spark.table, link(2)
    table.land(link(1))
    read_state(reader, spark)
    table.now -= 3_600_000
    table.stage(mine)
    assert read_state(reader, spark, staged=[mine]).history.staged(mine)


def test_staged_snapshot_is_found_while_main_is_unchanged(spark: FakeSpark) -> None:
    reader, mine = TableStateReader(NAME), link(2)
    spark.table.land(link(1))
    read_state(reader, spark)
    spark.table.stage(mine)
    assert read_state(reader, spark).history.staged(mine) is None
    assert read_state(reader, spark, staged=[mine]).history.staged(mine)


def test_expired_snapshots_seen_before_are_remembered(spark: FakeSpark) -> None:
    reader, table = TableStateReader(NAME), spark.table
    first = table.land(link(1))
    read_state(reader, spark)
    table.commit()
    table.expire([first])
    assert read_state(reader, spark).number(KEY) == 1
    spark.mark(BEGUN)
    seen_late = read_state(TableStateReader(NAME), spark)
    with pytest.raises(ForgottenChainError):
        seen_late.number(KEY)


def test_snapshots_expiring_during_a_read_are_an_error(spark: FakeSpark) -> None:
    spark.table.land(link(1))
    spark.table.rows.clear()
    with pytest.raises(LandingError, match="have changed while they were read"):
        read_state(TableStateReader(NAME), spark)


def test_cached_catalog_is_refreshed(spark: FakeSpark) -> None:
    TableStateReader(NAME).read(cast("SparkSession", spark), is_cached=True)
    assert spark.refreshed == 1


def test_chain_without_links_has_no_head(spark: FakeSpark) -> None:
    spark.table.commit()
    seen = read_state(TableStateReader(NAME), spark)
    assert seen.heads([KEY]) == {}
    assert seen.number(KEY) == 0


def test_new_chain_starts_after_a_cut_history(spark: FakeSpark) -> None:
    first = spark.table.commit()
    spark.table.commit()
    spark.table.expire([first])
    spark.mark(ChainMark.begun(OTHER, 1, "term"))
    seen = read_state(TableStateReader(NAME), spark)
    assert seen.heads([KEY]) == {}
    assert seen.number(KEY) == 0


@pytest.mark.parametrize("is_marked", [True, False])
def test_expired_chain_has_no_provable_head(spark: FakeSpark, is_marked: bool) -> None:
    table, staged = spark.table, None
    if not is_marked:
        # Of its newest link only a copy is left, which does not contain the link.
        staged = table.stage(link(1))
        table.commit()
        table.pick(staged)
    else:
        staged = table.land(link(1))
        table.commit()
        spark.mark(BEGUN)
    table.expire([staged])
    with pytest.raises(ForgottenChainError, match=r"sink/orders-0: the snapshots .* have expired"):
        read_state(TableStateReader(NAME), spark).heads([OTHER, KEY])


def test_copied_link_has_a_number_without_its_source(spark: FakeSpark) -> None:
    staged = spark.table.stage(link(1))
    spark.table.commit()
    spark.table.pick(staged)
    spark.table.expire([staged])
    assert read_state(TableStateReader(NAME), spark).number(KEY) == 1


def test_stored_head_counts_for_an_expired_chain(spark: FakeSpark) -> None:
    table, head = spark.table, link(5)
    first = table.land(head)
    table.commit()
    table.expire([first])
    spark.mark(BEGUN, ChainMark.rest(head))
    seen = read_state(TableStateReader(NAME), spark)
    assert seen.heads([KEY, OTHER]) == {KEY: head}
    assert seen.number(KEY) == 5


def test_stored_head_before_a_later_link_is_ignored(spark: FakeSpark) -> None:
    table, stored, later = spark.table, link(5), link(6)
    first = table.land(stored)
    table.land(later)
    table.expire([first])
    spark.mark(ChainMark.rest(stored))
    assert read_state(TableStateReader(NAME), spark).heads([KEY])[KEY].attempt == later.attempt


def test_stored_head_is_ignored_if_the_history_is_whole(spark: FakeSpark) -> None:
    """The table was rewritten, and its properties stay."""
    spark.table.commit()
    spark.mark(ChainMark.rest(link(5)))
    assert read_state(TableStateReader(NAME), spark).heads([KEY]) == {}


def test_keys_include_chains_known_by_marks_only(spark: FakeSpark) -> None:
    spark.table.land(link(1))
    spark.mark(BEGUN, ChainMark.rest(link(2, key=OTHER)))
    spark.properties |= {"owner": "me", "sarameya.chain.of-somebody": "x"}
    assert read_state(TableStateReader(NAME), spark).keys() == sorted([KEY, OTHER])


def test_older_snapshot_has_its_own_heads(spark: FakeSpark) -> None:
    first, second = link(1), link(2)
    version = spark.table.land(first)
    spark.table.land(second)
    spark.mark(ChainMark.rest(second))
    seen = read_state(TableStateReader(NAME), spark)
    assert seen.at(str(version)).heads([KEY])[KEY].attempt == first.attempt
    for unknown in ("12", "yesterday", ""):
        with pytest.raises(HandlerError, match="has no snapshot"):
            seen.at(unknown)


def test_mark_of_an_owner_that_slept_is_ignored(spark: FakeSpark) -> None:
    """The owner had read the head before link 6 was published, and stores its mark afterwards."""
    table = spark.table
    landed = [table.land(link(number)) for number in (5, 6)]
    table.commit()
    spark.mark(BEGUN, ChainMark.begun(KEY, 6, "next"), ChainMark.rest(link(5)))
    table.expire(landed)
    with pytest.raises(ForgottenChainError):
        read_state(TableStateReader(NAME), spark).heads([KEY])


def test_fault_61_iceberg_warns_of_many_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_state, "MANY_SNAPSHOTS", 20)
    monkeypatch.setattr(table_state, "_COUNT_INTERVAL", 5)
    spark, reader = FakeSpark(FakeMetadata()), TableStateReader(NAME)
    warnings = []
    for number in range(1, 31):
        spark.table.land(link(number))
        reader.read(cast(SparkSession, spark), is_cached=False)
        if number == 22:
            for snapshot_id in [*spark.table.rows][:10]:
                del spark.table.rows[snapshot_id]
        warnings.append(reader.growth(cast(SparkSession, spark)))
    first = [bool(text) for text in warnings].index(True)
    assert first >= 19
    assert "CALL `ice`.system.expire_snapshots(table => " in warnings[first]
    assert spark.counted <= 4


def test_iceberg_with_expiring_snapshots_is_not_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_state, "MANY_SNAPSHOTS", 20)
    monkeypatch.setattr(table_state, "_COUNT_INTERVAL", 5)
    spark, reader = FakeSpark(FakeMetadata()), TableStateReader(NAME)
    for number in range(1, 61):
        spark.table.land(link(number))
        spark.table.expire([*spark.table.rows][:-10])
        reader.read(cast(SparkSession, spark), is_cached=False)
        assert reader.growth(cast(SparkSession, spark)) == ""
    assert 1 <= spark.counted <= 10
