"""Landing in Iceberg tables with a real Spark, in this process and behind Spark Connect: the contract of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sarameya import HandlerError
from sarameya.arrow import kafka_schema
from sarameya_handlers.landing.links import Kind, check_chain
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.iceberg import write_audit_publish
from sarameya_handlers.spark.iceberg.table import IcebergTable
from sarameya_handlers.spark.shaping.errors import SchemaMismatchError, TooManyPartitionsError
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing, Layout, Phase
from tests.integration.iceberg_stage import land, link, new_name
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


def test_links_land_and_plain_readers_see_their_rows(spark: SparkSession, table: IcebergTable, name: str) -> None:
    assert table.heads(spark, [KEY]) == {}
    assert table.links(spark, KEY, 1) == []
    assert table.keys(spark) == []

    chain = [link(1, 0, 5), link(2, 5, 8), link(3, 8, 8, kind=Kind.RESTATED), link(4, 8, 12, kind=Kind.GAP)]
    phases: list[tuple[Phase, int]] = []
    for one in chain:
        land(spark, table, one, checkpoint=lambda phase, landings: phases.append((phase, landings[0].link.number)))
    others = link(1, 100, 102, key=OTHER)
    chain.append(link(5, 12, 13))
    land(spark, table, chain[-1], others)

    assert phases == [(Phase.WRITTEN, n) for n in (1, 2, 3, 4)]
    for seen in (table, IcebergTable(name)):
        links = seen.links(spark, KEY, 1)
        check_chain(links)
        assert [one.attempt for one in links] == [one.attempt for one in chain]
        assert [one.rows for one in links] == [5, 3, 0, 0, 1]
        assert [one.kind for one in links] == [one.kind for one in chain]
        assert all(one.size_bytes > 500 for one in links if one.rows)
        assert [one.number for one in seen.links(spark, KEY, 4)] == [4, 5]
        assert {key: head.attempt for key, head in seen.heads(spark, [KEY, OTHER]).items()} == {
            KEY: chain[-1].attempt,
            OTHER: others.attempt,
        }
        assert seen.keys(spark) == [KEY, OTHER]
        assert rows(seen.read(spark)) == rows_of(chain[0], chain[1], chain[4], others)
    assert spark.conf.get("spark.wap.id", None) is None


def test_user_setting_is_restored(spark: SparkSession, table: IcebergTable) -> None:
    spark.conf.set("spark.wap.id", "theirs")
    try:
        land(spark, table, link(1, 0, 1))
        with pytest.raises(LandingError):
            land(spark, table, link(2, 1, 2), shape=Shaping(transform=lambda frame: frame.selectExpr("*", "1 AS more")))
        assert spark.conf.get("spark.wap.id") == "theirs"
    finally:
        spark.conf.unset("spark.wap.id")


def test_attempt_at_a_taken_link_number_leaves_staged_files(spark: SparkSession, table: IcebergTable) -> None:
    first, second, late = link(1, 0, 5), link(2, 5, 8), link(2, 5, 9)
    for one in (first, second, late):
        land(spark, table, one)
    assert found(spark, table) == [(1, first.attempt), (2, second.attempt)]
    assert rows(table.read(spark)) == rows_of(first, second)

    (leftover,) = table.leftovers(spark)
    assert leftover.what == "rows that were staged as link 2 of sink/orders-0, and never published"
    assert leftover.size_bytes > 0
    table.remove(spark, leftover)
    table.remove(spark, leftover)
    assert table.leftovers(spark) == []
    assert found(spark, table) == [(1, first.attempt), (2, second.attempt)]
    assert rows(table.read(spark)) == rows_of(first, second)


def test_link_without_a_predecessor_is_not_published(spark: SparkSession, table: IcebergTable) -> None:
    first = link(1, 0, 5)
    land(spark, table, first)
    with pytest.raises(LandingError, match="the table has no link 2, only 1"):
        land(spark, table, link(3, 8, 9))
    assert found(spark, table) == [(1, first.attempt)]


def test_iceberg_decides_between_two_simultaneous_attempts(
    spark: SparkSession, table: IcebergTable, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both attempts read their predecessor and publish: the check before cannot prevent this."""
    loser, winner = link(2, 5, 8), link(2, 5, 9)
    first = link(1, 0, 5)
    land(spark, table, first)
    other = IcebergTable(name)
    next_snapshot = write_audit_publish._next_snapshot

    def meanwhile(state: object, landing: Landing, *, plain: bool) -> int | None:
        snapshot = next_snapshot(state, landing, plain=plain)  # type: ignore[arg-type]
        monkeypatch.setattr(write_audit_publish, "_next_snapshot", next_snapshot)
        land(spark, other, winner)
        return snapshot

    monkeypatch.setattr(write_audit_publish, "_next_snapshot", meanwhile)
    other.open(spark)
    with pytest.raises(Exception, match="Duplicate request to cherry pick wap id"):
        land(spark, table, loser)
    assert found(spark, table) == [(1, first.attempt), (2, winner.attempt)]
    assert rows(table.read(spark)) == rows_of(first, winner)


def test_failing_batch_does_not_block_others(spark: SparkSession, table: IcebergTable) -> None:
    good, bad = link(1, 0, 5), link(1, 0, 5, key=OTHER)
    land(spark, table, good)
    fails = Shaping(transform=lambda frame: frame.selectExpr("*", "1 AS more") if _is_of(frame, 1) else frame)
    next_good = link(2, 5, 6)
    with pytest.raises(LandingError, match="the table has no more int"):
        land(spark, table, bad, next_good, shape=fails)
    assert found(spark, table) == [(1, good.attempt), (2, next_good.attempt)]
    assert found(spark, table, OTHER) == []


def _is_of(frame: object, partition: int) -> bool:
    return frame.first()["partition"] == partition  # type: ignore[attr-defined, no-any-return]


def test_abandoned_batch_is_staged_but_not_published(spark: SparkSession, table: IcebergTable) -> None:
    class Unwanted(Exception):
        pass

    def refuse(phase: Phase, landings: object) -> None:
        raise Unwanted

    with pytest.raises(Unwanted):
        land(spark, table, link(1, 0, 5), checkpoint=refuse)
    assert found(spark, table) == []
    assert rows(table.read(spark)) == []
    assert len(table.leftovers(spark)) == 1


def test_table_is_partitioned_within_the_limit(spark: SparkSession, name: str) -> None:
    layout = Layout(partition_by=("days(timestamp)", "topic"), max_partitions=3)
    table = IcebergTable(name, layout=layout)
    table.open(spark)
    few = link(1, 0, 9)
    land(spark, table, few, days=3)
    with pytest.raises(TooManyPartitionsError, match=r"more than 3 partitions by days\(timestamp\), topic"):
        land(spark, table, link(2, 9, 18), days=4)
    assert spark.sql(f"SELECT partition FROM {name}.partitions").count() == 3
    assert rows(table.read(spark)) == rows_of(few)
    assert table.leftovers(spark) == []

    IcebergTable(name, layout=Layout(partition_by=("day(timestamp)", "`topic`"))).open(spark)
    IcebergTable(name).open(spark)
    with pytest.raises(HandlerError, match=r"partitioned by \(days\(timestamp\), topic\), not by \(topic\)"):
        IcebergTable(name, layout=Layout(partition_by=("topic",))).open(spark)


def test_missing_columns_are_named_or_added(spark: SparkSession, table: IcebergTable, name: str) -> None:
    land(spark, table, link(1, 0, 2))
    more = Shaping(
        transform=lambda frame: frame.selectExpr(
            "offset", "value", "partition", "named_struct('x y', topic) AS `new one`"
        )
    )
    with pytest.raises(SchemaMismatchError, match=r"no new one struct<x y:string> not null: .*evolve_schema"):
        land(spark, table, link(2, 2, 4), shape=more)

    evolving, second = IcebergTable(name, layout=Layout(evolve_schema=True)), link(2, 2, 4)
    evolving.open(spark)
    land(spark, evolving, second, shape=more)
    deeper = Shaping(
        transform=lambda frame: frame.selectExpr(
            "offset", "value", "partition", "named_struct('x y', topic, 'z', array(named_struct('w', 1))) AS `new one`"
        )
    )
    land(spark, evolving, link(3, 4, 5), shape=deeper)
    collected = spark.sql(f"SELECT offset, topic, `new one` FROM {name} ORDER BY offset").collect()
    assert [(row[0], row[1], row[2] and row[2]["x y"]) for row in collected] == [
        (0, "orders", None),
        (1, "orders", None),
        (2, None, "orders"),
        (3, None, "orders"),
        (4, None, "orders"),
    ]
    assert found(spark, evolving)[1] == (2, second.attempt)


def test_wider_types_are_named_or_widen_the_table(spark: SparkSession, name: str) -> None:
    def of(number: str) -> Shaping:
        price = f"cast(offset as decimal({10 if number == 'int' else 20},2)) as price"
        inside = f"named_struct('list', array({number}(offset)), 'map', map('k', {number}(offset))) as inside"
        return Shaping(transform=lambda frame: frame.selectExpr("offset", f"{number}(offset) as n", price, inside))

    table = IcebergTable(name)
    table.open(spark)
    land(spark, table, link(1, 0, 2), shape=of("int"))
    with pytest.raises(SchemaMismatchError, match=r"n \(bigint in the rows, int in the table\).*evolve_schema = true"):
        land(spark, table, link(2, 2, 4), shape=of("bigint"))

    evolving = IcebergTable(name, layout=Layout(evolve_schema=True))
    evolving.open(spark)
    land(spark, evolving, link(2, 2, 4), shape=of("bigint"))
    land(spark, evolving, link(3, 4, 5), shape=of("int"))
    found = spark.table(name).selectExpr("n", "price", "inside.list[0]", "inside.map['k']", "offset").orderBy("offset")
    assert [kind for _, kind in found.dtypes] == ["bigint", "decimal(20,2)", "bigint", "bigint", "bigint"]
    assert [set(map(int, row)) for row in found.collect()] == [{n} for n in range(5)]


def test_rows_of_another_type_are_refused(spark: SparkSession, table: IcebergTable) -> None:
    land(spark, table, link(1, 0, 2))
    wrong = Shaping(transform=lambda frame: frame.selectExpr("cast(value AS string) AS offset", "value"))
    with pytest.raises(SchemaMismatchError, match=r"offset \(string in the rows, bigint in the table\)"):
        land(spark, table, link(2, 2, 4), shape=wrong)
    assert len(found(spark, table)) == 1


def test_chain_can_start_with_a_link_without_rows(spark: SparkSession, table: IcebergTable) -> None:
    """The table is created, too, with the columns of Kafka records."""
    gap, first = link(1, 5, 9, kind=Kind.GAP), link(2, 9, 11)
    land(spark, table, gap)
    assert table.read(spark).columns == [*kafka_schema().names]
    land(spark, table, first)
    assert found(spark, table) == [(1, gap.attempt), (2, first.attempt)]
    assert rows(table.read(spark)) == rows_of(first)
    assert list(table.staging.directory.iterdir()) == []
