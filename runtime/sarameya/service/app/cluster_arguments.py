"""Arguments that name a cluster, for all commands that use one.

They override the environment, and both override an app file and a `.properties` file, as where an app runs.
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
from sarameya.service.app.argument_app import argument
from sarameya.service.app.environment import Environment, Problem, Variable, toml_or_text
from sarameya.service.app.layers import Layers, stack_layers

DEFAULT_TIMEOUT = 10.0

_GIVE = "--bootstrap HOST:PORT, --properties FILE, --app APP.toml, or SARAMEYA_BOOTSTRAP_SERVERS"
_NO_CLUSTER = f"the cluster is missing: {_GIVE}"
_NAMING = ("bootstrap_servers", "properties")
"""Keys that name the cluster, or the file that does."""


@attrs.frozen(slots=True)
class Cluster:
    """The cluster that a command uses, and its client options."""

    bootstrap_servers: tuple[str, ...]
    config: Config
    _group: str | None = None
    _group_mistake: SarameyaError | None = None

    @property
    def group(self) -> str | None:
        """The group that an app file, properties or the environment name.

        Raises:
            SarameyaError: The group's name is wrong. Commands that need no group never see this error.
        """
        if self._group_mistake is not None:
            raise self._group_mistake
        return self._group


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--bootstrap`, `--properties`, `--app`, `-o` and `--timeout`, which `cluster` reads.

    They follow the subcommand.
    """
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
        # Wherever an app file is, an argument's file is where the command is called.
        yield argument("--properties", "properties", str(args.properties.absolute()))
    if args.bootstrap_servers:
        yield argument("--bootstrap", "bootstrap_servers", list(args.bootstrap_servers))
    for option, value in args.options:
        yield argument("-o", f"config.{option}", value)


def names_cluster(args: argparse.Namespace) -> bool:
    """Return whether the arguments or the environment name a cluster.

    A variable that is wrong counts, too: it may have been meant to. `cluster` reports its mistake.
    """
    return bool(args.app) or _is_named(args, environment())


def _is_named(args: argparse.Namespace, variables: Environment) -> bool:
    found, wrong = variables
    if args.bootstrap_servers or args.properties:
        return True
    return any(one.key in _NAMING for one in found) or any(key in ("", *_NAMING) for key, _ in wrong)


def cluster(args: argparse.Namespace) -> Cluster:
    """Return the cluster that the arguments and the environment name.

    Raises:
        AppFileError: There are mistakes; all are listed.
    """
    variables = environment()
    if not (args.app or _is_named(args, variables)):
        args.usage_error(_NO_CLUSTER)
    path, table, remedy = Path(args.called), {}, f"give {_GIVE}"
    if args.app:
        path, table, remedy = args.app, read(args.app), MISSING["bootstrap_servers"]
    layers, problems = stack_layers(table, path, _about_asking(variables), list(client_given(args)))
    asked = _asked(layers, [(key, line) for key, line in problems if key != "group"], remedy)
    of_group = [line for key, line in problems if key == "group"]
    mistake = AppFileError(path, of_group) if of_group else None
    return Cluster(asked.bootstrap_servers, _patient(asked.config, args.timeout), asked.group, mistake)


def _about_asking(variables: Environment) -> Environment:
    """Return the environment without what is about topics, handlers and the service."""

    def concerns(key: str) -> bool:
        return key.partition(".")[0] not in RUN_KEYS

    found, wrong = variables
    return [one for one in found if concerns(one.key)], [(key, line) for key, line in wrong if concerns(key)]


def _asked(layers: Layers, wrong: list[Problem], remedy: str) -> ClusterSection:
    """Return the keys that say which cluster is used, and how."""
    if wrong and "bootstrap_servers" not in layers.table:  # which may be what is wrong
        raise AppFileError(layers.path, [line for _, line in wrong])
    layers = attrs.evolve(layers, table={key: layers.table[key] for key in layers.table if key not in RUN_KEYS})
    return object_from_layers(ClusterSection, layers, wrong, {"bootstrap_servers": remedy})


def _patient(config: Config, seconds: float) -> Config:
    """Return the config with every timeout cut to `seconds`, so that no command retries without end."""
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
    """Return the parts of `NAME=VALUE`: the value as TOML has it, else the text as it is.

    Raises:
        argparse.ArgumentTypeError: The text has another form.
    """
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=VALUE, for example client_id=ops")
    return name, toml_or_text(value)
