"""Arguments of commands that need Spark: where it runs, and its properties."""

from __future__ import annotations

import argparse
import re

from sarameya import ConfigError
from sarameya_handlers.spark.options import SparkOptions

_END_OF_NAME = re.compile(r"[\s:]")


def add_spark_arguments(group: argparse._ArgumentGroup) -> None:
    """Add `--spark` (stored as `spark`, a string or None) and `--conf` (as `spark_conf`, a list of (name, value))."""
    group.add_argument("--spark", metavar="MASTER", help="where Spark runs (local[*])")
    group.add_argument(
        "--conf",
        dest="spark_conf",
        type=_setting,
        action="append",
        default=[],
        metavar="spark.NAME=VALUE",
        help="a Spark property, as for jars or a catalog; no secret: others see command lines; may be given again",
    )


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        name = _END_OF_NAME.split(text, 1)[0]  # do not show the rest, which may be a secret
        raise argparse.ArgumentTypeError(f"{name!r} must be spark.NAME=VALUE")
    try:
        SparkOptions(conf={name: value})
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"{f'{name}={error.value}'!r}: {error.allowed}") from None
    return name, value
