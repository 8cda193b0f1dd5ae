"""Errors for a Spark without Delta or Iceberg."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sarameya import HandlerError
from sarameya_handlers.spark.tables.packages import DELTA, Package, iceberg

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"


def spark(*classes: str, **conf: str) -> Any:
    """Classic Spark with these classes, and settings with `__` for a dot."""
    settings = {key.replace("__", "."): value for key, value in conf.items()}
    utils = SimpleNamespace(classIsLoadable=lambda name: name in classes)
    jvm = SimpleNamespace(
        org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(util=SimpleNamespace(Utils=utils))))
    )
    return SimpleNamespace(_jvm=jvm, conf=SimpleNamespace(get=settings.get))


def problem(package: Package, session: Any) -> str:
    with pytest.raises(HandlerError) as raised:
        package.require(session)
    return str(raised.value)


def test_spark_with_all_packages_is_accepted() -> None:
    DELTA.require(spark(DELTA.class_name, spark__sql__extensions=f"a.B,{EXTENSION}"))
    iceberg("lake").require(spark("org.apache.iceberg.spark.SparkCatalog"))


def test_connect_server_without_class_lookup_is_accepted() -> None:
    DELTA.require(SimpleNamespace(conf=SimpleNamespace(get=lambda *_: None)))  # type: ignore[arg-type]


def test_advice_covers_command_line_and_app_file() -> None:
    text = problem(DELTA, spark())
    assert f"\n  --conf spark.sql.extensions={EXTENSION}\n" in text
    assert f'\n  "spark.sql.extensions" = "{EXTENSION}"\n' in text
    assert "\n  --conf spark.jars.packages=io.delta:delta-spark_4.1_2.13:4.3.0\n" in text


def test_spark_version_without_a_known_iceberg_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.9.1")
    text = problem(iceberg("lake"), spark())
    assert text.startswith("Iceberg has no version that is known to work with Spark 4.9: install PySpark 4.1 (pip inst")
    DELTA.require(spark(DELTA.class_name, spark__sql__extensions=EXTENSION))  # the user's own jars


def test_extension_is_added_to_existing_ones() -> None:
    text = problem(
        DELTA, spark(DELTA.class_name, spark__sql__extensions="a.B", spark__sql__catalog__spark_catalog="own")
    )
    assert f"--conf spark.sql.extensions=a.B,{EXTENSION}\n" in text
    assert "jars.packages" not in text
    assert "spark_catalog" not in text


def test_iceberg_advice_keeps_an_existing_catalog() -> None:
    assert "--conf spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog\n" in problem(iceberg("lake"), spark())
    there = spark(spark__sql__catalog__lake="org.apache.iceberg.spark.SparkSessionCatalog")
    assert "spark.sql.catalog.lake" not in problem(iceberg("lake"), there)
