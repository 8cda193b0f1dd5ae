"""Suitable catalogs and tables, and the errors for others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sarameya import ConfigError, HandlerError
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.iceberg.catalog import Catalog, TableName, retention, take_driver_lease

SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
HOUR = 3_600_000


def catalog(**settings: str) -> Catalog:
    there = {"spark.sql.catalog.ice": SPARK_CATALOG}
    for name, value in settings.items():
        is_spark = name.startswith("spark")
        there[name.replace("__", ".") if is_spark else f"spark.sql.catalog.ice.{name.replace('_', '-')}"] = value
    return Catalog.of("ice", there.get)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("ice.db.orders", "`ice`.`db`.`orders`"),
        ("ice.a.b.orders", "`ice`.`a`.`b`.`orders`"),
        ("ice.`my db`.`or``d.ers`", "`ice`.`my db`.`or``d.ers`"),
    ],
)
def test_table_name_is_catalog_namespace_and_table(text: str, sql: str) -> None:
    name = TableName.of(text)
    assert name.sql == sql
    assert str(name) == text
    assert name.in_catalog == f"'{sql.partition('.')[2]}'"


@pytest.mark.parametrize("text", ["", "orders", "db.orders", "ice.db.", "ice..orders", "ice.my db.orders", "a.b.c;d"])
def test_invalid_table_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"CATALOG\.DB\.TABLE"):
        TableName.of(text)


def test_missing_or_foreign_catalog_is_refused() -> None:
    with pytest.raises(HandlerError, match=r"no Iceberg catalog 'ice' \(it has None\): set spark\.sql\.catalog\.ice"):
        Catalog.of("ice", {}.get)
    with pytest.raises(HandlerError, match=r"it has org\.apache.spark.sql.delta"):
        catalog(spark__sql__catalog__ice="org.apache.spark.sql.delta.catalog.DeltaCatalog")


@pytest.mark.parametrize("warehouse", ["s3a://bucket/lake", "gs://bucket/lake", "abfss://c@a.dfs.core.windows.net/l"])
@pytest.mark.parametrize("how", ["type", "catalog_impl"])
def test_hadoop_catalog_on_an_object_store_is_refused(warehouse: str, how: str) -> None:
    kind = "hadoop" if how == "type" else "org.apache.iceberg.hadoop.HadoopCatalog"
    with pytest.raises(HandlerError, match=r"object stores have no rename that fails.*Use a REST"):
        catalog(**{how: kind, "warehouse": warehouse})


def test_hadoop_catalog_on_a_default_object_store_is_refused() -> None:
    with pytest.raises(HandlerError, match="object stores"):
        catalog(type="hadoop", warehouse="/lake", spark__hadoop__fs__defaultFS="s3a://bucket")


@pytest.mark.parametrize("warehouse", ["/data/lake", "file:/data/lake", "file:///data/lake", "lake", "file:./lake"])
def test_hadoop_catalog_on_local_files_needs_a_single_driver(warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/data")
    found = catalog(type="hadoop", warehouse=warehouse)
    assert found.takes_one_driver
    assert found.warehouse == "/data/lake"


@pytest.mark.parametrize(
    "settings",
    [
        {"type": "hadoop", "warehouse": "hdfs://name/lake"},
        {"type": "rest", "warehouse": "s3://bucket/lake"},
        {"type": "rest", "warehouse": "analytics"},
        {"type": "jdbc", "warehouse": "/data/lake"},
        {"catalog_impl": "org.apache.iceberg.aws.glue.GlueCatalog", "warehouse": "s3://bucket/lake"},
        {},
    ],
)
def test_catalog_with_atomic_commits_accepts_many_drivers(settings: dict[str, str]) -> None:
    found = catalog(**settings)
    assert not found.takes_one_driver
    assert found.warehouse == ("/data/lake" if settings.get("type") == "jdbc" else None)


def test_catalog_caches_tables_by_default() -> None:
    assert catalog().is_cached
    assert not catalog(cache_enabled="false").is_cached


def test_retention_is_read_from_the_table() -> None:
    assert retention({}, None) == 5 * 24 * 3600
    assert retention({"history.expire.max-snapshot-age-ms": str(2 * HOUR)}, None) == 2 * 3600
    assert retention({"history.expire.max-snapshot-age-ms": str(2 * HOUR)}, 3 * HOUR) == 2 * 3600


def test_retention_below_one_hour_is_refused() -> None:
    with pytest.raises(HandlerError, match=r"max-snapshot-age-ms is 3599999: .* set it to at least 3600000"):
        retention({"history.expire.max-snapshot-age-ms": str(HOUR - 1)}, None)


def test_main_branch_with_shorter_retention_is_refused() -> None:
    with pytest.raises(HandlerError, match="the main branch keeps its snapshots for 7200000 ms, less than"):
        retention({}, 2 * HOUR)


def test_driver_lease_is_held_until_its_process_ends(tmp_path: Path) -> None:
    lock = tmp_path / "lake" / "driver.lock"
    program = (
        "import sys, pathlib\nfrom sarameya_handlers.spark.iceberg.catalog import take_driver_lease\n"
        "take_driver_lease(pathlib.Path(sys.argv[1])); print('taken', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout
            assert other.stdout.readline() == "taken\n"
            with pytest.raises(LandingError, match=r"another process lands .* share one Spark Connect server"):
                take_driver_lease(lock)
        finally:
            other.kill()
    take_driver_lease(lock)
    take_driver_lease(lock)
