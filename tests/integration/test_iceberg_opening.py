"""Unsuitable Iceberg tables are refused; the first batch creates a missing one. In a JDBC catalog."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from sarameya import HandlerError
from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.iceberg.catalog import CREATED_WITH
from sarameya_handlers.spark.iceberg.marks import chain_marks
from sarameya_handlers.spark.iceberg.table import IcebergTable
from sarameya_handlers.spark.tables.settings import temporary_settings
from sarameya_handlers.spark.tables.table import Layout
from tests.integration.iceberg_stage import land, link, new_name
from tests.integration.lake_stage import KEY, OTHER, classic, found, rows, rows_of
from tests.integration.lakes.catalogs import jdbc_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves the sockets of `collect` to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    directory = tmp_path_factory.mktemp("lake")
    with jdbc_catalog(directory) as catalog, classic(directory, iceberg=catalog) as session:
        yield session


@pytest.fixture
def name() -> str:
    return new_name()


def test_table_is_created_by_the_first_batch_and_audits_writes(spark: SparkSession, name: str) -> None:
    table = IcebergTable(name)
    table.open(spark)
    land(spark, table, link(1, 0, 2))
    properties = {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    assert properties.items() >= CREATED_WITH.items()
    assert [(mark.number, mark.is_rest) for mark in chain_marks(properties)[KEY]] == [(1, False)]
    assert table.restate_after == 5 * 24 * 3600 / 4


def test_concurrent_first_batches_create_one_table(spark: SparkSession) -> None:
    members = 4
    for _ in range(5):
        name, barrier = new_name(), Barrier(members)
        firsts = [link(1, 0, 3, key=type(KEY)("sink", "orders", partition)) for partition in range(members)]

        def first_landing(which: int, name: str = name, barrier: Barrier = barrier, firsts: list = firsts) -> None:
            table, session = IcebergTable(name, layout=Layout(partition_by=("partition",))), spark.newSession()
            table.open(session)
            barrier.wait()
            land(session, table, firsts[which])

        with ThreadPoolExecutor(members) as pool:
            list(pool.map(first_landing, range(members)))
        assert rows(spark.table(name)) == rows_of(*firsts)


def test_existing_table_is_switched_to_audited_writes(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (offset bigint, value binary, partition int) USING iceberg")
    table = IcebergTable(name)
    table.open(spark)
    (row,) = spark.sql(f"SHOW TBLPROPERTIES {name} ('write.wap.enabled')").collect()
    assert row[1] == "true"


def test_table_with_disabled_audit_is_refused(spark: SparkSession, name: str) -> None:
    table = IcebergTable(name)
    table.open(spark)
    land(spark, table, link(1, 0, 2))
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.wap.enabled' = 'false')")
    with pytest.raises(LandingError, match=r"write\.wap\.enabled was switched off"):
        land(spark, table, link(2, 2, 4))
    assert spark.table(name).count() == 2
    # If this happens between the check and the append, the rows are published, and the chain is broken.
    with temporary_settings(spark, {"spark.wap.id": "sarameya/sink/orders/0/2"}):
        rest = spark.table(name).writeTo(name).option("snapshot-property.sarameya.link", link(2, 2, 4).to_json())
        rest.append()
    with pytest.raises(BrokenChainError, match=r"write\.wap\.enabled"):
        IcebergTable(name).heads(spark, [KEY])


def test_session_with_a_wap_branch_is_refused(spark: SparkSession, name: str) -> None:
    with (
        temporary_settings(spark, {"spark.wap.branch": "audit"}),
        pytest.raises(HandlerError, match=r"spark\.wap\.branch is 'audit'"),
    ):
        IcebergTable(name).open(spark)


def test_table_with_too_short_retention_is_refused(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"CREATE TABLE {name} (id bigint) USING iceberg TBLPROPERTIES ('history.expire.max-snapshot-age-ms' = '60000')"
    )
    with pytest.raises(HandlerError, match="set it to at least 3600000"):
        IcebergTable(name).open(spark)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('history.expire.max-snapshot-age-ms' = '3600000')")
    table = IcebergTable(name)
    table.open(spark)
    assert table.restate_after == 900
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    spark.sql(f"ALTER TABLE {name} REPLACE BRANCH main WITH SNAPSHOT RETENTION 30 MINUTES")
    with pytest.raises(HandlerError, match="the main branch keeps its snapshots for 1800000 ms"):
        IcebergTable(name).open(spark)
    spark.sql(f"ALTER TABLE {name} REPLACE BRANCH main WITH SNAPSHOT RETENTION 2 HOURS")
    IcebergTable(name).open(spark)


def test_table_of_another_format_is_refused(spark: SparkSession) -> None:
    with pytest.raises(HandlerError, match="no Iceberg catalog 'spark_catalog'"):
        IcebergTable("spark_catalog.default.orders").open(spark)


def test_records_are_staged_in_the_given_directory(spark: SparkSession, name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HandlerError, match="cannot stage in"):
        IcebergTable(name, staging=tmp_path / "file").open(spark)
    table = IcebergTable(name, staging=tmp_path / "staging")
    table.open(spark)
    assert table.staging.directory.is_dir()
    assert table.staging.directory != IcebergTable("ice.db.another", staging=tmp_path / "staging").staging.directory
    first = link(1, 0, 2)
    land(spark, table, first)
    assert rows(table.read(spark)) == rows_of(first)


def test_caching_catalog_is_refreshed(spark: SparkSession, tmp_path: Path) -> None:
    """An Iceberg catalog in Spark caches tables, and by default does not see others' commits for half a minute."""
    of_catalog = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": str(tmp_path)}
    both = {f"spark.sql.catalog.{name}{key}": value for name in ("one", "two") for key, value in of_catalog.items()}
    with temporary_settings(spark, both):
        caching, table = IcebergTable("one.db.t"), IcebergTable("two.db.t")
        caching.open(spark)
        chain = [link(1, 0, 2), link(2, 2, 4)]
        land(spark, caching, chain[0])
        table.open(spark)
        land(spark, table, chain[1])
        assert found(spark, caching) == [(one.number, one.attempt) for one in chain]
        land(spark, caching, link(2, 2, 3))
        land(spark, table, link(1, 0, 1, key=OTHER))
        third = link(3, 4, 5)
        land(spark, caching, third)
        assert found(spark, table)[-1] == (3, third.attempt)


def test_missing_table_cannot_be_read(spark: SparkSession, name: str) -> None:
    for read in (lambda table: table.read(spark), lambda table: table.heads_at(spark, "1")):
        with pytest.raises(HandlerError, match="there is no table"):
            read(IcebergTable(name))
    assert IcebergTable(name).leftovers(spark) == []
