"""Arguments of `sarameya groups`, and of others that are like it: what is asked about, topics, times. Where the cluster
is, `cluster_arguments.py` knows."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any

from sarameya.offset_policy import milliseconds, parse_duration, parse_moment
from sarameya.service.cluster_arguments import Cluster, add_cluster_arguments
from sarameya.service.groups.scope import TopicChoice
from sarameya.service.log_lines import add_logging_arguments


def subcommand(
    commands: Any, name: str, summary: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """A subcommand of those in `commands`, argparse's subparsers, and what carries it out."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(run=run)
    return parser


def add_execute_argument(parser: argparse.ArgumentParser) -> None:
    """`--execute`, of what changes something."""
    parser.add_argument("--execute", action="store_true", help="do it; without this it is only shown")


def add_shared_arguments(parser: argparse.ArgumentParser) -> None:
    """What every command of `sarameya groups` takes."""
    add_cluster_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document, for programs")
    add_logging_arguments(parser, default=argparse.SUPPRESS)


def group_names(args: argparse.Namespace, named: list[str], place: Cluster) -> list[str]:
    """The groups that were named, else the cluster's own."""
    if named:
        return named
    if place.group is None:
        args.usage_error("no group is named: GROUP, or by --app, --properties or SARAMEYA_GROUP")
    return [place.group] if place.group else []


def topic_choice(text: str) -> TopicChoice:
    try:
        return TopicChoice.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def moment(text: str) -> int:
    """An ISO 8601 date and time as milliseconds since 1970; UTC where it names no zone."""
    try:
        when = parse_moment(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error} (without a zone: UTC)") from None
    return milliseconds(when if when.tzinfo else when.replace(tzinfo=UTC))


def duration(text: str) -> timedelta:
    """An ISO 8601 duration of weeks, days, hours, minutes and seconds."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None


def offset(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} must be an offset: a whole number of at least 0")
    return int(text)
