"""The rounds: builds each table, then starts and lands in it, round after round."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import attrs

from bench.common.machine import load
from bench.common.presenting import show_progress
from bench.common.results import Figures, Result
from bench.common.tables import Table
from bench.growth import delta, iceberg, parquet
from bench.growth.chains import BUSY, KEYS, QUIET
from bench.growth.figures import FIRST_START, LANDING, START, table
from bench.growth.landing import land
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.engines.jvm import spark_jvm
from sarameya_handlers.spark.iceberg.table import IcebergTable
from sarameya_handlers.spark.options import SparkOptions
from sarameya_handlers.spark.parquet.table import ParquetTable
from sarameya_handlers.spark.tables import table as tables
from tests.integration.lakes import ICEBERG_CATALOG, spark_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("parquet", "delta", "iceberg")
MASTER = "local[2]"
DRIVER_MEMORY = "4g"
LANDINGS = 5
LONG_SECONDS = 300.0
"""A length whose rounds have taken this long has no further round."""

Open = Callable[[], tables.Table]
"""Creates the object for a table that was built, as a start does."""


@attrs.frozen
class Plan:
    """Measurements to make."""

    lengths: Mapping[str, Sequence[int]]
    """Lengths to measure, by format."""
    repeats: int

    def within(self, longest: int) -> Plan:
        """Return the plan without greater lengths."""
        kept = {kind: [length for length in lengths if length <= longest] for kind, lengths in self.lengths.items()}
        return attrs.evolve(self, lengths=kept)


def measure(plan: Plan, known: Mapping[str, Table]) -> Iterator[Table]:
    """Yield a table for each format, and each kind of Delta's logs. Raises JarsError.

    Args:
        plan: What to measure.
        known: Tables of an earlier run by their titles. They are not measured again.
    """
    with tempfile.TemporaryDirectory(prefix="sarameya-growth-") as name:
        root = Path(name)
        if "parquet" in plan.lengths:
            build = partial(_parquet, root)
            title = "Parquet: links of a chain"
            yield known.get(title) or _measured(None, "parquet", title, plan, build)
        if plan.lengths.keys() <= {"parquet"}:
            return
        with _spark(root) as spark:
            for log in delta.Log if "delta" in plan.lengths else ():
                build = partial(_delta, spark, root, log)
                title = f"Delta: commits ({log})"
                if title not in known:
                    build(100)  # warms Spark up
                yield known.get(title) or _measured(spark, "delta", title, plan.within(log.longest), build)
            if "iceberg" in plan.lengths:
                build = partial(_iceberg, spark, root)
                title = "Iceberg: snapshots"
                yield known.get(title) or _measured(spark, "iceberg", title, plan, build)


def _measured(
    spark: SparkSession | None, kind: str, title: str, plan: Plan, build: Callable[[int], tuple[Path, Open]]
) -> Table:
    results = []
    for length in plan.lengths[kind]:
        result = Result(f"{length:,}", is_ours=True)
        results.append(result)
        show_progress(f"growth: building {title}, {length:,}")
        directory, open_table = build(length)
        began = time.monotonic()
        for number in range(plan.repeats):
            try:
                figures = _round(spark, kind, directory, open_table)
            except Exception as error:  # noqa: BLE001  after any error of Spark the length has failed
                result.add(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}")
                break
            result.add(figures)
            show_progress(f"growth: {title}, {length:,}, round {number + 1}: {figures}")
            if time.monotonic() - began > LONG_SECONDS:
                break
        shutil.rmtree(directory)
    return table(kind, title, results, load())


def _round(spark: SparkSession | None, kind: str, directory: Path, open_table: Open) -> Figures:
    figures = {}
    if kind == "delta":
        (directory / "_sarameya" / "heads.json").unlink(missing_ok=True)
        figures[FIRST_START], _ = _start(spark, open_table)
    figures[START], opened = _start(spark, open_table)
    head = opened.heads(spark, [BUSY[0]])[BUSY[0]]  # type: ignore[arg-type]
    seconds = []
    for _ in range(LANDINGS):
        began = time.monotonic()
        head = land(spark, opened, BUSY[0], head)
        seconds.append(time.monotonic() - began)
    figures[LANDING] = median(seconds)
    return figures


def _start(spark: SparkSession | None, open_table: Open) -> tuple[float, tables.Table]:
    """Open a table and find its heads. Return the seconds that this took, and the table."""
    if spark is not None:
        # Delta caches the logs that it has read. A JVM that has just started has none.
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    opened = open_table()
    began = time.monotonic()
    opened.open(spark)  # type: ignore[arg-type]
    opened.heads(spark, KEYS)  # type: ignore[arg-type]
    return time.monotonic() - began, opened


def _parquet(root: Path, length: int) -> tuple[Path, Open]:
    directory = root / f"parquet-{length}"
    parquet.build(directory, length)
    return directory, partial(ParquetTable, directory)


def _delta(spark: SparkSession, root: Path, log: delta.Log, length: int) -> tuple[Path, Open]:
    directory = root / f"delta-{log.name.lower()}-{length}"
    delta.build(spark, directory, length, log)
    return directory, partial(DeltaTable, directory)


def _iceberg(spark: SparkSession, root: Path, length: int) -> tuple[Path, Open]:
    name = f"{ICEBERG_CATALOG}.bench.orders{length}"
    created = IcebergTable(name)
    created.open(spark)
    land(spark, created, QUIET, None)
    iceberg.build(root / "iceberg", f"orders{length}", length)
    return root / "iceberg" / "bench" / f"orders{length}", partial(IcebergTable, name)


@contextmanager
def _spark(root: Path) -> Iterator[SparkSession]:
    catalog = f"spark.sql.catalog.{ICEBERG_CATALOG}"
    conf: dict[str, str | int | bool] = {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.jars": ",".join(map(str, spark_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(root / "spark"),
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(root / "iceberg"),
        f"{catalog}.cache-enabled": "false",
    }
    running = spark_jvm.start(SparkOptions(master=MASTER, conf=conf))
    try:
        yield running.session
    finally:
        running.stop()
