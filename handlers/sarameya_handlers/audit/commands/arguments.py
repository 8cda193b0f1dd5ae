"""Arguments that the table commands share: the table, or an app file for all its tables, Spark, and the output."""

from __future__ import annotations

import argparse
import re
from typing import Any

import attrs

from sarameya import ConfigError, HandlerError
from sarameya.service import Cluster, add_cluster_arguments, cluster, load_app, names_cluster
from sarameya_handlers.audit.app_tables import tables_of_app
from sarameya_handlers.landing.directory.manifests import HIDDEN
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.arguments import add_spark_arguments
from sarameya_handlers.spark.options import SparkOptions
from sarameya_handlers.spark.options import spark_options as sink_spark_options
from sarameya_handlers.spark.parquet.table import ParquetTable
from sarameya_handlers.spark.tables.named import parse_table, table_named
from sarameya_handlers.spark.tables.table import Table

_UNITS = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def add_arguments(parser: argparse.ArgumentParser, *, is_for_many: bool = True) -> None:
    """Add all arguments; `table_of` or `tables_of`, `spark_options` and `cluster_of` read them.

    Args:
        parser: The command's parser.
        is_for_many: The table may be left out, if an app file is given: then all its tables are meant.
    """
    parser.add_argument(
        "table",
        metavar="TABLE",
        nargs="?" if is_for_many else None,
        help="parquet:PATH, delta:PATH_OR_NAME or iceberg:CATALOG.DB.TABLE; a path alone means parquet"
        + ("; without it, all tables of --app" if is_for_many else ""),
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quiet", action="store_true", help="hide progress")
    spark = parser.add_argument_group("Spark, if the table needs it")
    add_spark_arguments(spark)
    spark.add_argument("--staging", metavar="PLACE", help="the option `staging` of the table's sink, if it has it")
    add_cluster_arguments(parser)


def tables_of(args: argparse.Namespace) -> list[Table]:
    """Return the table that the arguments name, or all tables of the app file.

    Raises:
        SarameyaError: An argument or the app file is invalid, or a topic has no table.
    """
    if args.table is not None:
        return [table_of(args)]
    if args.app is None:
        args.usage_error("name a TABLE, or give --app APP.toml for all its tables")
    return tables_of_app(load_app(args.app), _options(args), lambda: cluster(args))


def table_of(args: argparse.Namespace) -> Table:
    """Return the table that the arguments name.

    Raises:
        ConfigError: The name does not describe a table, or the directory of a Parquet table does not exist.
    """
    kind, _ = parse_table(args.table)
    options = _options(args)
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


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that the arguments give for tables of any format."""
    return {"staging": args.staging} if args.staging else {}


def _has_landed(table: ParquetTable) -> bool:
    try:
        return isinstance(table.store, LocalStore) or table.store.has_files(HIDDEN)
    except OSError as error:
        raise HandlerError(f"{table.name} cannot be read: {error.strerror or error}") from error


def spark_options(args: argparse.Namespace) -> SparkOptions:
    """Return Spark's options: those of the app file if it names the tables, and those of the arguments.

    Raises:
        ConfigError: One is invalid.
    """
    options = SparkOptions()
    if args.table is None and args.app is not None:
        options = sink_spark_options(load_app(args.app).handler.options.get("spark", {}))
    return attrs.evolve(
        options,
        master=args.spark or options.master,
        app_name="sarameya-audit",
        conf={**options.conf, **dict(args.spark_conf)},
    )


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
