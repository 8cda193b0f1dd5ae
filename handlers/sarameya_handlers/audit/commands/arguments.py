"""Arguments that the table commands share: the table, Spark, and the output."""

from __future__ import annotations

import argparse
import re
from typing import Any

from sarameya import ConfigError, HandlerError
from sarameya.service import Cluster, add_cluster_arguments, cluster, names_cluster
from sarameya_handlers.landing.directory.manifests import HIDDEN
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.arguments import add_spark_arguments
from sarameya_handlers.spark.options import SparkOptions
from sarameya_handlers.spark.parquet.table import ParquetTable
from sarameya_handlers.spark.tables.named import parse_table, table_named
from sarameya_handlers.spark.tables.table import Table

_UNITS = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table's and the cluster's arguments; `cluster_of` reads the latter."""
    add_table_arguments(parser)
    add_cluster_arguments(parser)


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that all table commands have; `table_of` and `spark_options` read them."""
    parser.add_argument(
        "table",
        metavar="TABLE",
        help="parquet:PATH, delta:PATH_OR_NAME or iceberg:CATALOG.DB.TABLE; a path alone means parquet",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quiet", action="store_true", help="hide progress")
    spark = parser.add_argument_group("Spark, if the table needs it")
    add_spark_arguments(spark)
    spark.add_argument(
        "--staging", metavar="DIRECTORY", help="staging directory of the table's sink, if it has the option `staging`"
    )


def table_of(args: argparse.Namespace) -> Table:
    """Return the table that the arguments name.

    Raises:
        ConfigError: The name does not describe a table, or the directory of a Parquet table does not exist.
    """
    kind, _ = parse_table(args.table)
    options: dict[str, Any] = {}
    if args.staging:
        options["staging"] = args.staging
    if kind == "delta" and getattr(args, "single_driver", False):
        options["single_driver"] = True
    table = table_named(args.table, options)
    if isinstance(table, ParquetTable) and isinstance(table.store, LocalStore) and not table.store.root.is_dir():
        what = "is not a directory" if table.store.root.exists() else "does not exist"
        raise ConfigError(
            "TABLE", args.table, f"the directory {table.path} {what}: name the table as its sink's option `table` does"
        )
    if isinstance(table, ParquetTable) and not _has_landed(table):
        raise ConfigError(
            "TABLE", args.table, "nothing has landed there: name the table as its sink's option `table` does"
        )
    return table


def _has_landed(table: ParquetTable) -> bool:
    try:
        return isinstance(table.store, LocalStore) or table.store.has_files(HIDDEN)
    except OSError as error:
        raise HandlerError(f"{table.name} cannot be read: {error.strerror or error}") from error


def spark_options(args: argparse.Namespace) -> SparkOptions:
    """Return Spark's options.

    Raises:
        ConfigError: One is invalid.
    """
    master = {"master": args.spark} if args.spark else {}
    return SparkOptions(app_name="sarameya-audit", conf=dict(args.spark_conf), **master)


def cluster_of(args: argparse.Namespace) -> Cluster | None:
    """Return the cluster that the arguments name, or None.

    Raises:
        AppFileError: The app file is invalid.
    """
    return cluster(args) if names_cluster(args) else None


def seconds(text: str) -> float:
    """Parse a duration: `90s`, `30min`, `12h`, `1d`, `2w`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h|d|w)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number with one of s, min, h, d, w, for example 1d")
    return float(match[1]) * _UNITS[match[2]]


def size(text: str) -> int:
    """Parse a size in bytes: `512KB`, `128MB`, `1GB`, with units of 1,024."""
    match = re.fullmatch(r"(\d+)(B|KB|MB|GB)", text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a whole number with one of B, KB, MB, GB, for example 128MB"
        )
    return int(match[1]) << 10 * ("B", "KB", "MB", "GB").index(match[2])
