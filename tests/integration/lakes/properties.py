"""Spark's properties for Delta Lake and Iceberg side by side. Nothing here starts Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sarameya_handlers.spark.options import SparkOptions
from tests.integration.lakes.jars import spark_jars

ICEBERG_CATALOG = "ice"
"""Its tables are `ice.<namespace>.<table>`; Delta's are paths, or names in `spark_catalog`."""

_FEW_ROWS = {
    # A Delta table's snapshot is dealt to as many tasks as this: 50 by default, for tables of a few commits.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    # VACUUM lists a table's files in as many: 10,000 by default.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    # To write and compile code for each expression takes longer than to walk it for every row there is. (Walked, some
    # of Spark's own fail, `catalog.listTables` say; tests of what users write have it compiled: `lake_stage.either`.)
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.ui.explainMode": "simple",
}
"""A landing of a few rows takes half as long. What all of Spark's own settings do is seen by the demo, the examples and
the benches."""


def lake_properties(warehouse: Path, *, iceberg: str = "hadoop") -> dict[str, str]:
    """Properties for a classic session as for a Connect server, with all that is stored below `warehouse`.

    `iceberg` is the kind of its catalog: "hadoop" (files), or "jdbc" (an H2 database, which several drivers may have
    open at once). Raises JarsError.
    """
    catalog = f"spark.sql.catalog.{ICEBERG_CATALOG}"
    properties = {
        "spark.jars": ",".join(map(str, spark_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(warehouse / "spark"),
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": iceberg,
        f"{catalog}.warehouse": str(warehouse / "iceberg"),
        # Else a session goes on seeing the table as it was when it first looked.
        f"{catalog}.cache-enabled": "false",
    } | _FEW_ROWS
    if iceberg == "jdbc":
        # AUTO_SERVER: the first to open the file serves it to the others.
        properties[f"{catalog}.uri"] = f"jdbc:h2:file:{warehouse / 'iceberg-catalog'};AUTO_SERVER=TRUE"
    return properties


def lake_options(
    warehouse: Path, *, iceberg: str = "hadoop", master: str = "local[2]", conf: Mapping[str, str] | None = None
) -> SparkOptions:
    """The same, as the options of a classic session; `conf` has more properties, which win."""
    return SparkOptions(master=master, conf={**lake_properties(warehouse, iceberg=iceberg), **(conf or {})})
