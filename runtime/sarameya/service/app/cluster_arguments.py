"""Arguments that name a cluster, for all commands that use one.

They override the environment. Both override an app file and a `.properties` file, as for a running app.
"""

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
from sarameya.service.app.app_file import (
    MISSING,
    RUN_KEYS,
    AppFileError,
    ClusterSection,
    environment,
    object_from_layers,
    read,
)
from sarameya.service.app.environment import Environment, Problem, Variable, toml_or_text
from sarameya.service.app.layers import Layers, stack_layers

DEFAULT_TIMEOUT = 10.0

_SOURCES = "--bootstrap HOST:PORT, --properties FILE, --app APP.toml, or SARAMEYA_BOOTSTRAP_SERVERS"
_NO_CLUSTER = f"the cluster is missing: {_SOURCES}"
_CLUSTER_KEYS = ("bootstrap_servers", "properties")
"""Keys that name the cluster, or a file that names the cluster."""


@attrs.frozen(slots=True)
class Cluster:
    """The cluster that a command uses, and its client options."""

    bootstrap_servers: tuple[str, ...]
    config: Config
    _group: str | None = None
    _group_mistake: SarameyaError | None = None

    @property
    def group(self) -> str | None:
        """The group's name from an app file, a `.properties` file or the environment.

        Raises:
            SarameyaError: The group's name is wrong. Commands that need no group never see this error.
        """
        if self._group_mistake is not None:
            raise self._group_mistake
        return self._group


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--bootstrap`, `--properties`, `--app`, `-o` and `--timeout`, which `cluster` reads.

    On the command line they follow the subcommand.
    """
    group = parser.add_argument_group("the cluster")
    add_client_arguments(group)
    group.add_argument(
        "--app", type=Path, metavar="APP.toml", help="take bootstrap_servers, [config] and the group from an app file"
    )
    group.add_argument(
        "--timeout",
        type=_seconds,
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help=f"how long a request may take, with its retries ({DEFAULT_TIMEOUT:g})",
    )
    parser.set_defaults(usage_error=parser.error, called=parser.prog)


def add_client_arguments(place: argparse._ArgumentGroup) -> None:
    """Add `--bootstrap`, `--properties` and `-o`, which `client_given` reads."""
    place.add_argument(
        "--bootstrap",
        "--bootstrap-servers",
        dest="bootstrap_servers",
        type=server_list,
        metavar="HOST:PORT[,...]",
        help="brokers to connect to first",
    )
    place.add_argument(
        "--properties",
        type=Path,
        metavar="FILE",
        help="a .properties file with Kafka's own names, for options that nothing else gives",
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
    """Yield the values that the arguments of `add_client_arguments` give to keys of an app file."""
    if args.properties:
        # Absolute: an argument's path is relative to the working directory, not to the app file.
        yield Variable("--properties", "properties", str(args.properties.absolute()))
    if args.bootstrap_servers:
        yield Variable("--bootstrap", "bootstrap_servers", list(args.bootstrap_servers))
    for option, value in args.options:
        yield Variable("-o", f"config.{option}", value)


def names_cluster(args: argparse.Namespace) -> bool:
    """Return whether the arguments or the environment name a cluster.

    A variable with a mistake counts, too, since it may be meant to name the cluster. `cluster` reports the mistake.
    """
    return bool(args.app) or _is_named(args, environment())


def _is_named(args: argparse.Namespace, variables: Environment) -> bool:
    found, wrong = variables
    if args.bootstrap_servers or args.properties or any(variable.key in _CLUSTER_KEYS for variable in found):
        return True
    return any(key in ("", *_CLUSTER_KEYS) for key, _ in wrong)


def cluster(args: argparse.Namespace) -> Cluster:
    """Return the cluster that the arguments and the environment name.

    Raises:
        AppFileError: There are mistakes; all are listed.
    """
    variables = environment()
    if not (args.app or _is_named(args, variables)):
        args.usage_error(_NO_CLUSTER)
    path, table, remedy = Path(args.called), {}, f"give {_SOURCES}"
    if args.app:
        path, table, remedy = args.app, read(args.app), MISSING["bootstrap_servers"]
    layers, problems = stack_layers(table, path, _cluster_variables(variables), list(client_given(args)))
    section = _cluster_section(layers, [(key, line) for key, line in problems if key != "group"], remedy)
    group_problems = [line for key, line in problems if key == "group"]
    group_mistake = AppFileError(path, group_problems) if group_problems else None
    config = _limit_timeouts(section.config, args.timeout)
    return Cluster(section.bootstrap_servers, config, section.group, group_mistake)


def _cluster_variables(variables: Environment) -> Environment:
    """Return the environment without the variables for topics, handlers and the service."""

    def concerns(key: str) -> bool:
        return key.partition(".")[0] not in RUN_KEYS

    found, wrong = variables
    kept = [variable for variable in found if concerns(variable.key)]
    return kept, [(key, line) for key, line in wrong if concerns(key)]


def _cluster_section(layers: Layers, wrong: list[Problem], remedy: str) -> ClusterSection:
    """Return the cluster, the group and the client options that the layers name."""
    if wrong and "bootstrap_servers" not in layers.table:  # a mistake may be the reason why the key is missing
        raise AppFileError(layers.path, [line for _, line in wrong])
    layers = attrs.evolve(layers, table={key: layers.table[key] for key in layers.table if key not in RUN_KEYS})
    return object_from_layers(ClusterSection, layers, wrong, {"bootstrap_servers": remedy})


def _limit_timeouts(config: Config, seconds: float) -> Config:
    """Return the config with every timeout cut to `seconds`, so that no command retries forever."""
    return attrs.evolve(
        config,
        bootstrap_timeout=min(config.bootstrap_timeout, seconds),
        connect_timeout=min(config.connect_timeout, seconds),
        request_timeout=min(config.request_timeout, seconds),
        retry_timeout=min(config.retry_timeout or math.inf, seconds),
    )


def server_list(text: str) -> tuple[str, ...]:
    """Return the addresses in `HOST:PORT,...`.

    Raises:
        argparse.ArgumentTypeError: The text is no such list, or has a user or password in it.
    """
    if "@" in text:  # before the split: a password may contain commas
        raise argparse.ArgumentTypeError(
            "must be HOST:PORT without a user or password, since every user of this machine can list its processes: "
            "give sasl_username and sasl_password"
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
    """Return the name and the value of `NAME=VALUE`. The value is parsed as TOML if it is TOML, else it is a text.

    Raises:
        argparse.ArgumentTypeError: The text has another form.
    """
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=VALUE, for example client_id=ops")
    return name, toml_or_text(value)


def positive(text: str) -> int:
    """Parse a number of things, at least 1."""
    if not text.isdecimal() or not 1 <= int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)
