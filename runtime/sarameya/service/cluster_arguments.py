"""Arguments of commands that speak to a cluster: where it is, and how. They and the environment go before an app file
and a `.properties` file, as they do where an app is run."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from sarameya.config import Config
from sarameya.errors import ConfigError, SarameyaError
from sarameya.net.bootstrap import parse_bootstrap
from sarameya.service.app_file import (
    MISSING,
    OF_RUNNING,
    AppFileError,
    AskedSection,
    environment,
    read,
    structured_as,
)
from sarameya.service.argument_app import argument
from sarameya.service.environment import Environment, Problem, Variable, toml_or_text
from sarameya.service.layers import Layers, layered

DEFAULT_TIMEOUT = 10.0

_GIVE = "--bootstrap HOST:PORT, --properties FILE, --app APP.toml, or SARAMEYA_BOOTSTRAP_SERVERS"
_NO_CLUSTER = f"the cluster is missing: {_GIVE}"
_NAMING = ("bootstrap_servers", "properties")
"""Keys that say which cluster, or where that is said."""


@attrs.frozen(slots=True)
class Cluster:
    """Which cluster is asked, and how."""

    bootstrap_servers: tuple[str, ...]
    config: Config
    _group: str | None = None
    _group_mistake: SarameyaError | None = None

    @property
    def group(self) -> str | None:
        """An app file's, or that of properties or of the environment, where such was named. Raises SarameyaError where
        what was said of it is wrong: no matter to commands that need none."""
        if self._group_mistake is not None:
            raise self._group_mistake
        return self._group


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """`--bootstrap`, `--properties`, `--app` and their like; `cluster` reads them. They follow the subcommand."""
    place = parser.add_argument_group("the cluster")
    add_client_arguments(place)
    place.add_argument(
        "--app", type=Path, metavar="APP.toml", help="take bootstrap_servers, [config] and the group from an app file"
    )
    place.add_argument(
        "--timeout",
        type=_seconds,
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help=f"how long anything is tried ({DEFAULT_TIMEOUT:g})",
    )
    parser.set_defaults(usage_error=parser.error, called=parser.prog)


def add_client_arguments(place: argparse._ArgumentGroup) -> None:
    """`--bootstrap`, `--properties` and `-o`; `client_given` reads them."""
    place.add_argument(
        "--bootstrap",
        "--bootstrap-servers",
        dest="bootstrap_servers",
        type=server_list,
        metavar="HOST:PORT[,...]",
        help="brokers of the cluster to begin with",
    )
    place.add_argument(
        "--properties",
        type=Path,
        metavar="FILE",
        help="a .properties file of Kafka's own names, for what the others leave open",
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


def client_given(args: argparse.Namespace) -> Iterator[Variable]:
    """What the arguments of `add_client_arguments` say of an app file's keys."""
    if args.properties:
        # Wherever an app file is, an argument's file is where the command is called.
        yield argument("--properties", "properties", str(args.properties.absolute()))
    if args.bootstrap_servers:
        yield argument("--bootstrap", "bootstrap_servers", list(args.bootstrap_servers))
    for option, value in args.options:
        yield argument("-o", f"config.{option}", value)


def names_cluster(args: argparse.Namespace) -> bool:
    """Whether the arguments or the environment say which cluster; also where a variable is wrong, which may have been
    meant to: `cluster` tells it."""
    return bool(args.app) or _is_named(args, environment())


def _is_named(args: argparse.Namespace, variables: Environment) -> bool:
    found, wrong = variables
    if args.bootstrap_servers or args.properties:
        return True
    return any(one.key in _NAMING for one in found) or any(key in ("", *_NAMING) for key, _ in wrong)


def cluster(args: argparse.Namespace) -> Cluster:
    """The cluster that is named. Raises AppFileError, which lists all mistakes."""
    variables = environment()
    if not (args.app or _is_named(args, variables)):
        args.usage_error(_NO_CLUSTER)
    path, table, remedy = Path(args.called), {}, f"give {_GIVE}"
    if args.app:
        path, table, remedy = args.app, read(args.app), MISSING["bootstrap_servers"]
    layers, problems = layered(table, path, _about_asking(variables), list(client_given(args)))
    asked = _asked(layers, [(key, line) for key, line in problems if key != "group"], remedy)
    of_group = [line for key, line in problems if key == "group"]
    mistake = AppFileError(path, of_group) if of_group else None
    return Cluster(asked.bootstrap_servers, _patient(asked.config, args.timeout), asked.group, mistake)


def _about_asking(variables: Environment) -> Environment:
    """Without what is about topics, handlers and the service."""

    def concerns(key: str) -> bool:
        return key.partition(".")[0] not in OF_RUNNING

    found, wrong = variables
    return [one for one in found if concerns(one.key)], [(key, line) for key, line in wrong if concerns(key)]


def _asked(layers: Layers, wrong: list[Problem], remedy: str) -> AskedSection:
    """What layers amount to, but for what running an app needs."""
    if wrong and "bootstrap_servers" not in layers.table:  # which may be what is wrong
        raise AppFileError(layers.path, [line for _, line in wrong])
    layers = attrs.evolve(layers, table={key: layers.table[key] for key in layers.table if key not in OF_RUNNING})
    return structured_as(AskedSection, layers, wrong, {"bootstrap_servers": remedy})


def _patient(config: Config, seconds: float) -> Config:
    """The config of somebody who waits for an answer `seconds` at most: nothing is tried without end."""
    return attrs.evolve(
        config,
        bootstrap_timeout=min(config.bootstrap_timeout, seconds),
        connect_timeout=min(config.connect_timeout, seconds),
        request_timeout=min(config.request_timeout, seconds),
        retry_timeout=min(config.retry_timeout or math.inf, seconds),
    )


def server_list(text: str) -> tuple[str, ...]:
    """`HOST:PORT,...`."""
    if "@" in text:  # before it is cut: a password may have anything in it
        raise argparse.ArgumentTypeError(
            "must be HOST:PORT without a user or password, which all who list processes would see: sasl_username and "
            "sasl_password are for these"
        )
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
