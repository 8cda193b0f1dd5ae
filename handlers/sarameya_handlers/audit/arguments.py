"""Arguments that the audit's commands share: the table, Spark, how results are printed."""

from __future__ import annotations

import argparse
import re
from typing import Any

from sarameya import ConfigError
from sarameya.service import Cluster, add_cluster_arguments, cluster, names_cluster
from sarameya_handlers.spark.arguments import add_spark_arguments
from sarameya_handlers.spark.options import SparkOptions
from sarameya_handlers.spark.parquet.table import ParquetTable
from sarameya_handlers.spark.tables.named import parse_table, table_named
from sarameya_handlers.spark.tables.table import Table

_UNITS = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is taken by those that ask a cluster, too; `cluster_of` reads it."""
    add_table_arguments(parser)
    add_cluster_arguments(parser)


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """What each of them takes; `table_of` and `spark_options` read it."""
    parser.add_argument(
        "table", metavar="TABLE", help="parquet:PATH, delta:PATH_OR_NAME, iceberg:CATALOG.DB.TABLE; a path is parquet's"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document, for programs")
    parser.add_argument("--quiet", action="store_true", help="tell nothing of how far it has come")
    spark = parser.add_argument_group("Spark, where the table needs it")
    add_spark_arguments(spark)
    spark.add_argument(
        "--staging", metavar="DIRECTORY", help="where the table's sink stages, if it was told to: its option `staging`"
    )


def table_of(args: argparse.Namespace) -> Table:
    """Return the table that the arguments name.

    Raises:
        ConfigError: The name cannot be a table's, or the directory of a Parquet table does not exist.
    """
    kind, _ = parse_table(args.table)
    options: dict[str, Any] = {}
    if args.staging:
        if kind == "parquet":
            raise ConfigError("--staging", args.staging, "is for other tables: a Parquet table stages in its directory")
        options["staging"] = args.staging
    if kind == "delta" and getattr(args, "single_driver", False):
        options["single_driver"] = True
    table = table_named(args.table, options)
    if isinstance(table, ParquetTable) and not table.path.is_dir():
        what = "is not a directory" if table.path.exists() else "does not exist"
        raise ConfigError(
            "TABLE", args.table, f"the directory {table.path} {what}: name the table as its sink's option `table` does"
        )
    return table


def spark_options(args: argparse.Namespace) -> SparkOptions:
    """Raises ConfigError."""
    master = {"master": args.spark} if args.spark else {}
    return SparkOptions(app_name="sarameya-audit", conf=dict(args.spark_conf), **master)


def cluster_of(args: argparse.Namespace) -> Cluster | None:
    """The cluster that is named; None where none is. Raises AppFileError."""
    return cluster(args) if names_cluster(args) else None


def seconds(text: str) -> float:
    """`90s`, `30min`, `12h`, `1d`, `2w`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h|d|w)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number with one of s, min, h, d, w, for example 1d")
    return float(match[1]) * _UNITS[match[2]]


def size(text: str) -> int:
    """Bytes: `512KB`, `128MB`, `1GB`, of 1,024 each."""
    match = re.fullmatch(r"(\d+)(B|KB|MB|GB)", text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a whole number with one of B, KB, MB, GB, for example 128MB"
        )
    return int(match[1]) << 10 * ("B", "KB", "MB", "GB").index(match[2])
