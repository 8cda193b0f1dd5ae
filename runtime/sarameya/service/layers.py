"""What gives an app its values: a `.properties` file, before it the app file, before that the environment, and before
all of them the command line.

Puts them into one table, and knows of each key where its value came from. What the table must be, `app_file.py` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from sarameya.config import ClientValues
from sarameya.errors import PropertiesError
from sarameya.secret import Secret, masked
from sarameya.service.environment import PREFIX, Environment, Problem, Variable

GIVEN_BENEATH = ("bootstrap_servers", "group")
"""What a `.properties` file gives beside options."""
_SECURITY = ("security_protocol", "sasl_", "tls_")
"""Options, by how they begin, that must not be others than was meant."""
_INSTEAD = {"topics": "topics_pattern", "topics_pattern": "topics"}


@attrs.frozen
class Layers:
    """A table as an app file has it, and where its values come from."""

    table: Mapping[str, Any] = attrs.field(repr=False)  # there may be secrets in it
    path: Path
    """The app file's."""
    variables: tuple[Variable, ...] = ()
    properties: Path | None = None
    beneath: frozenset[str] = frozenset()
    """The keys that only `properties` gives."""
    is_short: bool = False
    """Whether there is such a file that could not be read: what is missing may stand in it."""

    def origin(self, key: str) -> str:
        """Where the value of a key comes from: an argument's or a variable's name, a file's, or `default`."""
        if variable := self._variable(key):
            return variable.name
        if key in self.beneath:
            return str(self.properties)
        return str(self.path) if _is_in(self.table, key.split(".")) else "default"

    def _variable(self, key: str) -> Variable | None:
        """What goes before the files for a key, or for a table that it is in."""
        return next((one for one in self.variables if key == one.key or key.startswith(f"{one.key}.")), None)

    def told(self, key: str, problem: str) -> str:
        """A line about the value of a key, with what has given it where that is not the app file."""
        if variable := self._variable(key):
            return f"{problem} (by {variable.name})"
        return f"{problem} (by {self.properties})" if key in self.beneath else problem


def layered(
    table: dict[str, Any],
    path: Path,
    environment: Environment,
    arguments: Sequence[Variable] = (),
) -> tuple[Layers, list[Problem]]:
    """The app file's table (which is changed) with what lies before and beneath it, and what is wrong with these.

    `arguments` are the command line's, named as it names them.
    """
    found, wrong = environment
    given_keys = {argument.key for argument in arguments}
    given_keys |= {_INSTEAD[key] for key in given_keys & _INSTEAD.keys()}
    problems = [(key, line) for key, line in (*wrong, *_both_set(found)) if key not in given_keys]
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
    return attrs.evolve(layers, properties=properties, beneath=frozenset(_laid(table, client))), problems


def _both_set(variables: Sequence[Variable]) -> Iterator[Problem]:
    """That one of them would stand in for another, unasked."""
    names = {variable.key: variable.name for variable in variables}
    if names.keys() >= _INSTEAD.keys():
        yield "topics", f"{names['topics']} and {names['topics_pattern']} are both set: set one of them"


def _contradictions(layers: Layers, properties: Path, client: ClientValues) -> Iterator[Problem]:
    """That a variable says another cluster, group or security than the file which the command line names: who called
    the command may not know of the variable, and would ask, or change, what was not meant."""
    options = {f"config.{name}": value for name, value in client.options.items() if name.startswith(_SECURITY)}
    for key, theirs in {**_whom(client), **options}.items():
        ours = layers._variable(key)
        if ours is not None and ours.name.startswith(PREFIX) and not _agree(ours.value, theirs):
            both = f"{ours.name} says {masked(key, ours.value)!r}, and {properties} {masked(key, theirs)!r}"
            yield key, f"{key}: {both}: unset the variable, or say by an argument which is meant"


def put(table: dict[str, Any], key: str, value: Any) -> None:
    """A value in place of the table's, and of what it stands in for."""
    *parents, name = key.split(".")
    for parent in parents:
        inner = table.setdefault(parent, {})
        if not isinstance(inner, dict):  # which is told when the table becomes an app
            return
        table = inner
    table[name] = value
    if not parents and name in _INSTEAD:
        table.pop(_INSTEAD[name], None)


def _laid(table: dict[str, Any], client: ClientValues) -> Iterator[str]:
    """Put what a client's properties give where the table has nothing; the keys of it."""
    for key, value in _whom(client).items():
        if key not in table:
            table[key] = value
            yield key
    options = table.setdefault("config", {})
    if isinstance(options, dict):
        for option in client.options.keys() - options.keys():
            options[option] = client.options[option]
            yield f"config.{option}"


def _whom(client: ClientValues) -> dict[str, Any]:
    """Which cluster and which group a client's properties name."""
    both = zip(GIVEN_BENEATH, (list(client.bootstrap_servers), client.group_id), strict=True)
    return {key: value for key, value in both if value}


def _agree(ours: Any, theirs: Any) -> bool:
    """Whether they are the same, or brokers of the same cluster: any of it leads to all."""
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
    """Whether the key of these names is given; a name may have dots in it, as topics' have."""
    if not names or not isinstance(table, Mapping):
        return not names
    heads = range(1, len(names) + 1)
    return any(".".join(names[:n]) in table and _is_in(table[".".join(names[:n])], names[n:]) for n in heads)
