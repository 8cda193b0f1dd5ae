"""Layers of an app's values: command line over environment over app file over `.properties` file.

The layers become one table, and each key keeps its origin. `app_file.py` checks the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from sarameya.config import ClientValues
from sarameya.errors import PropertiesError
from sarameya.secret import Secret, masked
from sarameya.service.app.environment import PREFIX, Environment, Problem, Variable

PROPERTIES_KEYS = ("bootstrap_servers", "group")
"""Keys other than options that a `.properties` file gives."""
_SECURITY = ("security_protocol", "sasl_", "tls_")
"""Prefixes of the options for security. A wrong value would weaken it, so that contradictions are refused."""
_EXCLUDES = {"topics": "topics_pattern", "topics_pattern": "topics"}
"""Keys that exclude each other."""


@attrs.frozen
class Layers:
    """A table in the form of an app file, and the origins of its values."""

    table: Mapping[str, Any] = attrs.field(repr=False)  # there may be secrets in it
    path: Path
    """The path of the app file."""
    variables: tuple[Variable, ...] = ()
    properties: Path | None = None
    beneath: frozenset[str] = frozenset()
    """Keys that only `properties` gives."""
    is_short: bool = False
    """True if the `.properties` file could not be read. It may have the values that are missing."""

    def origin(self, key: str) -> str:
        """Return the origin of a key's value: the name of an argument or variable, a file's path, or `default`."""
        if variable := self._variable(key):
            return variable.name
        if key in self.beneath:
            return str(self.properties)
        return str(self.path) if _is_in(self.table, key.split(".")) else "default"

    def _variable(self, key: str) -> Variable | None:
        """Return the argument or variable that gives the key, or a table that the key is in."""
        return next((one for one in self.variables if key == one.key or key.startswith(f"{one.key}.")), None)

    def with_origin(self, key: str, problem: str) -> str:
        """Return a line about the value of a key, with its origin if that is not the app file."""
        if variable := self._variable(key):
            return f"{problem} (by {variable.name})"
        return f"{problem} (by {self.properties})" if key in self.beneath else problem


def stack_layers(
    table: dict[str, Any],
    path: Path,
    environment: Environment,
    arguments: Sequence[Variable] = (),
) -> tuple[Layers, list[Problem]]:
    """Put the layers over the app file's table, which is changed. Return the layers and their mistakes.

    Args:
        table: The app file's table.
        path: The app file's path; the `.properties` file is named from its folder.
        environment: The variables that are set.
        arguments: Values from the command line, under the names of its arguments.
    """
    found, wrong = environment
    given_keys = {argument.key for argument in arguments}
    given_keys |= {_EXCLUDES[key] for key in given_keys & _EXCLUDES.keys()}
    problems = [(key, line) for key, line in (*wrong, *_excluded(found)) if key not in given_keys]
    for variable in [*found, *arguments]:
        put(table, variable.key, variable.value)
    layers = Layers(table, path, (*reversed(arguments), *found))
    named = table.get("properties")
    if not isinstance(named, str) or not named:
        return layers, problems
    properties = path.parent / named
    try:
        client = ClientValues.read(properties)
    except PropertiesError as error:
        problems += (("properties", line) for line in error.problems)
        return attrs.evolve(layers, is_short=True), problems
    if "properties" in given_keys:
        problems += _contradictions(layers, properties, client)
    return attrs.evolve(layers, properties=properties, beneath=frozenset(_fill_in(table, client))), problems


def _excluded(variables: Sequence[Variable]) -> Iterator[Problem]:
    """Yield a mistake if two variables are set that exclude each other."""
    names = {variable.key: variable.name for variable in variables}
    if names.keys() >= _EXCLUDES.keys():
        yield "topics", f"{names['topics']} and {names['topics_pattern']} are both set: set one of them"


def _contradictions(layers: Layers, properties: Path, client: ClientValues) -> Iterator[Problem]:
    """Yield a mistake for each variable that contradicts the file of the command line in cluster, group or security.

    The caller may not know of the variable: the command would then read or change the wrong cluster.
    """
    options = {f"config.{name}": value for name, value in client.options.items() if name.startswith(_SECURITY)}
    for key, theirs in {**_cluster_and_group(client), **options}.items():
        ours = layers._variable(key)
        if ours is not None and ours.name.startswith(PREFIX) and not _agree(ours.value, theirs):
            both = f"{ours.name} is {masked(key, ours.value)!r}, but {properties} has {masked(key, theirs)!r}"
            yield key, f"{key}: {both}: unset the variable, or give the value by an argument"


def put(table: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a key in the table. Remove the key that it excludes."""
    *parents, name = key.split(".")
    for parent in parents:
        inner = table.setdefault(parent, {})
        if not isinstance(inner, dict):  # reported when the table becomes an app
            return
        table = inner
    table[name] = value
    if not parents and name in _EXCLUDES:
        table.pop(_EXCLUDES[name], None)


def _fill_in(table: dict[str, Any], client: ClientValues) -> Iterator[str]:
    """Set the client properties that the table lacks. Yield their keys."""
    for key, value in _cluster_and_group(client).items():
        if key not in table:
            table[key] = value
            yield key
    options = table.setdefault("config", {})
    if isinstance(options, dict):
        for option in client.options.keys() - options.keys():
            options[option] = client.options[option]
            yield f"config.{option}"


def _cluster_and_group(client: ClientValues) -> dict[str, Any]:
    """Return the cluster and the group that client properties name."""
    both = zip(PROPERTIES_KEYS, (list(client.bootstrap_servers), client.group_id), strict=True)
    return {key: value for key, value in both if value}


def _agree(ours: Any, theirs: Any) -> bool:
    """Return whether two values are the same, or name brokers of one cluster: any broker leads to all."""
    match ours, theirs:
        case list(), list():
            return not {*map(str, ours)}.isdisjoint(theirs)
        case str(), Secret():
            try:
                return Secret.of(ours) == theirs
            except ValueError:
                return False
    return bool(ours == theirs)


def _is_in(table: Any, names: Sequence[str]) -> bool:
    """Return whether the key with these names is in the table. A name may contain dots, as names of topics do."""
    if not names or not isinstance(table, Mapping):
        return not names
    heads = range(1, len(names) + 1)
    return any(".".join(names[:n]) in table and _is_in(table[".".join(names[:n])], names[n:]) for n in heads)
