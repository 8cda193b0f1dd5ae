"""Arguments of `sarameya groups` and similar commands: groups, topics, times.

`app/cluster_arguments.py` has those that name the cluster.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any

from sarameya.offset_policy import milliseconds, parse_duration, parse_moment
from sarameya.service.app.cluster_arguments import Cluster, add_cluster_arguments
from sarameya.service.groups.topic_choice import TopicChoice
from sarameya.service.output.log_format import add_logging_arguments


def subcommand(
    commands: Any, name: str, summary: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add a subcommand to `commands`, argparse's subparsers, and the function that runs it."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(run=run)
    return parser


def add_execute_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--execute`, for commands that change something."""
    parser.add_argument("--execute", action="store_true", help="make the change; without this it is only shown")


def add_shared_arguments(
    parser: argparse.ArgumentParser, json_help: str = "print one JSON document, for programs"
) -> None:
    """Add the arguments of every command of `sarameya groups`."""
    add_cluster_arguments(parser)
    parser.add_argument("--json", action="store_true", help=json_help)
    add_logging_arguments(parser, default=argparse.SUPPRESS)


def group_names(args: argparse.Namespace, named: list[str], kafka: Cluster) -> list[str]:
    """Return the groups that arguments name, else the group of the app file, the `.properties` file or environment."""
    if named:
        return named
    if kafka.group is None:
        args.usage_error("no group is named: give GROUP, or name it by --app, --properties or SARAMEYA_GROUP")
    return [kafka.group] if kafka.group else []


def topic_choice(text: str) -> TopicChoice:
    """Parse `TOPIC` or `TOPIC:0,2-4`."""
    try:
        return TopicChoice.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def moment(text: str) -> int:
    """Parse an ISO 8601 date and time (UTC if it names no zone) into milliseconds since 1970."""
    try:
        when = parse_moment(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error} (without a zone: UTC)") from None
    found = milliseconds(when if when.tzinfo else when.replace(tzinfo=UTC))
    if found < 0:  # in a request, negative times stand for the ends of a log
        raise argparse.ArgumentTypeError(f"{text!r} must be a time from 1970 on")
    return found


def duration(text: str) -> timedelta:
    """Parse an ISO 8601 duration of weeks, days, hours, minutes and seconds."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None


def offset(text: str) -> int:
    """Parse an offset."""
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} must be an offset: a whole number of at least 0")
    return int(text)
