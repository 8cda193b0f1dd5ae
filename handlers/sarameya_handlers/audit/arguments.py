"""Arguments that the audit's commands share: the table, Spark, how results are printed."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from sarameya import ConfigError
from sarameya.service import Cluster, add_cluster_arguments, cluster
from sarameya_handlers.spark.options import SparkOptions
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
    spark.add_argument("--spark", metavar="MASTER", help="where Spark runs (local[*])")
    spark.add_argument(
        "--conf",
        dest="spark_conf",
        type=_setting,
        action="append",
        default=[],
        metavar="spark.NAME=VALUE",
        help="a Spark property: jars, catalogs, credentials; may be given again",
    )
    spark.add_argument(
        "--staging", metavar="DIRECTORY", help="where the table's sink stages, if it was told to: its option `staging`"
    )


def table_of(args: argparse.Namespace) -> Table:
    """Raises ConfigError."""
    kind, _ = parse_table(args.table)
    options: dict[str, Any] = {}
    if args.staging:
        if kind == "parquet":
            raise ConfigError("--staging", args.staging, "is for other tables: a Parquet table stages in its directory")
        options["staging"] = args.staging
    if kind == "delta" and getattr(args, "single_driver", False):
        options["single_driver"] = True
    return table_named(args.table, options)


def spark_options(args: argparse.Namespace) -> SparkOptions:
    """Raises ConfigError."""
    master = {"master": args.spark} if args.spark else {}
    return SparkOptions(app_name="sarameya-audit", conf=dict(args.spark_conf), **master)


def cluster_of(args: argparse.Namespace) -> Cluster | None:
    """The cluster that is named; None where none is. Raises ConfigError."""
    return cluster(args) if args.bootstrap_servers or args.app else None


def progress_of(args: argparse.Namespace) -> Callable[[str], None]:
    """Tells on stderr how far it has come, unless nobody wants to know."""

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    return (lambda line: None) if args.quiet else tell


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


def show(text: str, document: dict[str, Any], *, as_json: bool) -> None:
    """Print the result to stdout, all at once."""
    try:
        print(json.dumps(document, indent=2) if as_json else text, flush=True)
    except BrokenPipeError:  # `| head` has seen enough; the interpreter would complain of it at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} must be spark.NAME=VALUE")
    try:
        SparkOptions(conf={name: value})
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error.allowed}") from None
    return name, value
