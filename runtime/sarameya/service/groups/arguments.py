"""Arguments of commands that ask a cluster, those of `sarameya groups` and others': where it is, topics, times."""

from __future__ import annotations

import argparse
import math
import tomllib
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import attrs

from sarameya.config import Config
from sarameya.errors import ConfigError
from sarameya.net.broker_pool import parse_bootstrap
from sarameya.offset_policy import milliseconds, parse_duration, parse_moment
from sarameya.service.app_file import load_app
from sarameya.service.groups.scope import TopicChoice
from sarameya.service.log_lines import add_logging_arguments

DEFAULT_TIMEOUT = 10.0


@attrs.frozen(slots=True)
class Cluster:
    """Which cluster is asked, and how. `group` is an app file's, where one was named."""

    bootstrap_servers: tuple[str, ...]
    config: Config
    group: str | None = None


def add_shared_arguments(parser: argparse.ArgumentParser) -> None:
    """What every command of `sarameya groups` takes."""
    add_cluster_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document, for programs")
    add_logging_arguments(parser, default=argparse.SUPPRESS)


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """`--bootstrap-servers`, `--app` and their like; `cluster` reads them. They follow the subcommand."""
    place = parser.add_argument_group("the cluster")
    place.add_argument(
        "--bootstrap-servers", type=_servers, metavar="HOST:PORT[,...]", help="brokers of the cluster to begin with"
    )
    place.add_argument(
        "--app", type=Path, metavar="APP.toml", help="take bootstrap_servers, [config] and the group from an app file"
    )
    place.add_argument(
        "-o",
        dest="options",
        type=_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option as in [config] of an app file, for example client_id=ops; may be given again",
    )
    place.add_argument(
        "--timeout",
        type=_seconds,
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help=f"how long anything is tried ({DEFAULT_TIMEOUT:g})",
    )
    parser.set_defaults(usage_error=parser.error)


def cluster(args: argparse.Namespace) -> Cluster:
    """The cluster that the arguments name. Raises ConfigError and AppFileError for what is wrong in what they name."""
    if not (args.bootstrap_servers or args.app):
        args.usage_error("the cluster is missing: --bootstrap-servers HOST:PORT, or --app APP.toml")
    app = load_app(args.app) if args.app else None
    servers = args.bootstrap_servers or (app.bootstrap_servers if app else ())
    config = app.config if app else Config()
    if args.options:
        changed = {**attrs.asdict(config, recurse=False), **dict(args.options)}
        config = Config.from_mapping(changed, prefix="-o ")
    return Cluster(servers, _patient(config, args.timeout), app.group if app else None)


def _patient(config: Config, seconds: float) -> Config:
    """The config of somebody who waits for an answer `seconds` at most: nothing is tried without end."""
    return attrs.evolve(
        config,
        bootstrap_timeout=min(config.bootstrap_timeout, seconds),
        connect_timeout=min(config.connect_timeout, seconds),
        request_timeout=min(config.request_timeout, seconds),
        retry_timeout=min(config.retry_timeout or math.inf, seconds),
    )


def group_names(args: argparse.Namespace, named: list[str], place: Cluster) -> list[str]:
    """The groups that were named, else the app file's."""
    if named:
        return named
    if place.group is None:
        args.usage_error("no group is named: GROUP, or --app APP.toml whose group it is")
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


def _servers(text: str) -> tuple[str, ...]:
    servers = tuple(server.strip() for server in text.split(","))
    try:
        parse_bootstrap(servers)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"{error.value!r} {error.allowed}") from None
    return servers


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds, above 0 and up to a day")
    return seconds


def _option(text: str) -> tuple[str, Any]:
    """`NAME=VALUE`, the value as TOML has it, or a string as it is."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=VALUE, for example client_id=ops")
    try:
        table = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return name, value
    return name, table["value"] if len(table) == 1 else value
