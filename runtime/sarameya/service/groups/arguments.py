"""Arguments of commands that ask a cluster, those of `sarameya groups` and others': where it is, topics, times."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import attrs

from sarameya.config import ClientProperties, ClientValues, Config
from sarameya.errors import ConfigError
from sarameya.net.broker_pool import parse_bootstrap
from sarameya.offset_policy import milliseconds, parse_duration, parse_moment
from sarameya.service.app_file import config_of, load
from sarameya.service.environment import Variable, toml_or_text
from sarameya.service.groups.scope import TopicChoice
from sarameya.service.log_lines import add_logging_arguments

DEFAULT_TIMEOUT = 10.0

NO_CLUSTER = "the cluster is missing: --bootstrap HOST:PORT, --properties FILE, or --app APP.toml"


@attrs.frozen(slots=True)
class Cluster:
    """Which cluster is asked, and how. `group` is an app file's, or that of properties, where such were named."""

    bootstrap_servers: tuple[str, ...]
    config: Config
    group: str | None = None


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


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """`--bootstrap`, `--properties`, `--app` and their like; `cluster` reads them. They follow the subcommand."""
    place = parser.add_argument_group("the cluster")
    add_bootstrap_argument(place)
    place.add_argument(
        "--app", type=Path, metavar="APP.toml", help="take bootstrap_servers, [config] and the group from an app file"
    )
    place.add_argument(
        "--properties",
        type=Path,
        metavar="FILE",
        help="take what the others leave open from a .properties file of Kafka's own names",
    )
    place.add_argument(
        "-o",
        dest="options",
        type=name_and_value,
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


def add_bootstrap_argument(place: argparse._ArgumentGroup) -> None:
    """`--bootstrap`: `bootstrap_servers`, a tuple of addresses, or None."""
    place.add_argument(
        "--bootstrap",
        "--bootstrap-servers",
        dest="bootstrap_servers",
        type=server_list,
        metavar="HOST:PORT[,...]",
        help="brokers of the cluster to begin with",
    )


def names_cluster(args: argparse.Namespace) -> bool:
    """Whether the arguments say which cluster."""
    return bool(args.bootstrap_servers or args.app or args.properties)


def cluster(args: argparse.Namespace) -> Cluster:
    """The cluster that the arguments name. Raises ConfigError, AppFileError and PropertiesError for mistakes."""
    if not names_cluster(args):
        args.usage_error(NO_CLUSTER)
    servers, group, config = _of_app(args) if args.app else _of_properties(args)
    servers = args.bootstrap_servers or servers
    if not servers:
        args.usage_error(f"{args.properties} names no bootstrap.servers: give --bootstrap HOST:PORT")
    return Cluster(servers, _patient(config, args.timeout), group)


def _of_app(args: argparse.Namespace) -> tuple[tuple[str, ...], str | None, Config]:
    """Brokers, group and config of an app file, with what lies beneath it, the environment before it, and `-o`."""
    # Wherever the app file is, an argument's file is where the command is called.
    properties = [Variable("--properties", "properties", str(args.properties.absolute()))] if args.properties else []
    app = load(args.app, arguments=properties).app
    return app.bootstrap_servers, app.group, _changed(app.config, args.options)


def _of_properties(args: argparse.Namespace) -> tuple[tuple[str, ...], str | None, Config]:
    """As `_of_app`, of properties alone, or of nothing."""
    if not args.properties:
        return (), None, _changed(Config(), args.options)
    if not args.options:
        client = ClientProperties.read(args.properties)
        return client.bootstrap_servers, client.group_id, client.config
    # They may lack, or contradict, what only both together are.
    values = ClientValues.read(args.properties)
    config = config_of({**values.options, **dict(args.options)}, prefix="-o ")
    return values.bootstrap_servers, values.group_id, config


def _changed(config: Config, options: list[tuple[str, Any]]) -> Config:
    if not options:
        return config
    return config_of({**attrs.asdict(config, recurse=False), **dict(options)}, prefix="-o ")


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
        args.usage_error("no group is named: GROUP, or by --app or --properties")
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


def server_list(text: str) -> tuple[str, ...]:
    """`HOST:PORT,...`."""
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


def name_and_value(text: str) -> tuple[str, Any]:
    """`NAME=VALUE`, the value as TOML has it, or a string as it is."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=VALUE, for example client_id=ops")
    return name, toml_or_text(value)
