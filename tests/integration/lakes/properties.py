"""Spark properties for Delta Lake and Iceberg in one session. Nothing here starts Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sarameya_handlers.spark.options import SparkOptions
from tests.integration.lakes.jars import iceberg_aws_jars, spark_jars

ICEBERG_CATALOG = "ice"
"""The catalog of Iceberg tables: `ice.<namespace>.<table>`. Delta tables are paths, or names in `spark_catalog`."""

_FEW_ROWS = {
    # The number of tasks that read a Delta table's snapshot. The default, 50, is for larger tables.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    # The number of tasks in which VACUUM lists a table's files: 10,000 by default.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    # With few rows, compiling an expression takes longer than interpreting it for each row. (Some of Spark's own
    # expressions, such as those of `catalog.listTables`, fail when interpreted. Tests of users' expressions compile
    # them: `lake_stage.either`.)
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.ui.explainMode": "simple",
}
"""Settings that halve the time to land a few rows. The demo, the examples and the benchmarks run with Spark's
default settings."""


def lake_properties(warehouse: Path, *, iceberg: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the properties of a classic session or of a Connect server.

    Args:
        warehouse: the directory of all tables.
        iceberg: properties of the Iceberg catalog (see `catalogs`); None for a catalog of files, for a single driver.

    Raises:
        JarsError: The jars cannot be downloaded.
    """
    catalog = f"spark.sql.catalog.{ICEBERG_CATALOG}"
    own = iceberg or {"type": "hadoop", "warehouse": str(warehouse / "iceberg")}
    jars = (*spark_jars(), *iceberg_aws_jars()) if "io-impl" in own else spark_jars()
    properties = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(warehouse / "spark"),
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        # With the cache, a session would keep the state of a table that it read first.
        f"{catalog}.cache-enabled": "false",
    }
    return properties | {f"{catalog}.{name}": value for name, value in own.items()} | _FEW_ROWS


def lake_options(warehouse: Path, *, master: str = "local[2]", conf: Mapping[str, str] | None = None) -> SparkOptions:
    """Return the same properties as options of a classic session. `conf` adds properties, or overrides them."""
    return SparkOptions(master=master, conf={**lake_properties(warehouse), **(conf or {})})
