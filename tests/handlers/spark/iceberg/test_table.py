"""Opening an Iceberg table, and its directories. Spark is faked and knows one table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from sarameya_handlers.spark.iceberg.table import IcebergTable


@attrs.define
class Conf:
    settings: dict[str, str]

    def get(self, name: str, default: str | None = None) -> str | None:
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def unset(self, name: str) -> None:
        self.settings.pop(name, None)


class FakeSpark:
    """A session with the catalog `ice`, which has these settings and one table."""

    def __init__(self, **settings: str) -> None:
        there = {"spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog"}
        self.conf = Conf(there | {f"spark.sql.catalog.ice.{name}": value for name, value in settings.items()})

    @property
    def catalog(self) -> FakeSpark:
        return self

    def tableExists(self, name: str) -> bool:
        return True

    def sql(self, statement: str) -> FakeSpark:
        self._properties = statement.startswith("SHOW TBLPROPERTIES")
        return self

    def collect(self) -> list[Any]:
        return [("format", "iceberg/parquet"), ("write.wap.enabled", "true")] if self._properties else []


@pytest.mark.parametrize("warehouse", ["s3://bucket/lake", "name-of-a-warehouse", None])
def test_remote_table_stages_in_a_temporary_directory(
    warehouse: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spark: Any = FakeSpark(type="rest", **({"warehouse": warehouse} if warehouse else {}))
    table = IcebergTable("ice.db.orders")
    table.open_unstaged(spark)
    assert table.staging.directory == tmp_path / f"sarameya-staging-{os.getuid()}" / "ice.db.orders"
    assert not table.staging.directory.exists()
    assert table.restate_after is not None


@pytest.mark.parametrize(
    ("settings", "is_locked"),
    [({"type": "hadoop"}, True), ({"type": "jdbc"}, False)],
)
def test_catalog_for_one_driver_has_a_lock(tmp_path: Path, settings: dict[str, str], is_locked: bool) -> None:
    spark: Any = FakeSpark(warehouse=str(tmp_path), **settings)
    lock = tmp_path / "db" / "orders" / "_sarameya" / "driver.lock"
    assert IcebergTable("ice.db.orders").driver_lock(spark) == (lock if is_locked else None)


def test_quoted_name_stages_below_the_directory(tmp_path: Path) -> None:
    table = IcebergTable("ice.`a/../../..`.`orders/eu`", staging=tmp_path)
    assert table.staging.directory.parent == tmp_path
    assert table.staging.directory.resolve().parent == tmp_path
    assert IcebergTable("ice.db.`orders-eu`", staging=tmp_path).staging.directory == tmp_path / "ice.db.`orders-eu`"
