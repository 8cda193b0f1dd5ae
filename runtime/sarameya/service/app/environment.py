"""Environment variables that override an app file. Pure, except that it reads the files that variables name.

| variable | key of the app file |
|---|---|
| `SARAMEYA_BOOTSTRAP_SERVERS`, `SARAMEYA_TOPICS` | the same; commas separate values |
| `SARAMEYA_GROUP`, `SARAMEYA_TOPICS_PATTERN`, `SARAMEYA_PROPERTIES` | the same |
| `SARAMEYA_HANDLER_NAME` | `handler.name` |
| `SARAMEYA_CONFIG_SESSION_TIMEOUT` | `config.session_timeout`, and likewise each option |
| `SARAMEYA_SERVICE_WORKERS` | `service.workers`, and likewise each key of `[service]` |
| `SARAMEYA_HANDLER_OPTIONS_TABLE` | `handler.options.table`, and likewise each option of the handler |

A variable whose name ends in `_FILE` names the file that has the value, without its last line break.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from sarameya.config import Config
from sarameya.option_kinds import IN_THE_REFERENCE
from sarameya.secret import Secret, looks_secret, text_of_file

PREFIX = "SARAMEYA_"
_FILE = "_FILE"
_HANDLER_OPTIONS = "SARAMEYA_HANDLER_OPTIONS"
_PREFIX_WORDS = _HANDLER_OPTIONS.count("_") + 1
_HANDLER_OPTION = re.compile(rf"{_HANDLER_OPTIONS}_(?P<option>\w+)")
_LIKENESS = 0.9
"""Similarity above which a prefix counts as mistyped."""
_KEY_BY_PREFIX = {"SARAMEYA_HANDLER_": "handler", "SARAMEYA_SERVICE_": "service", "SARAMEYA_TOPICS": "topics"}
"""The key that an unknown variable belongs to, by the prefix of its name. The guess in the hint does not count."""

IGNORED = {"SARAMEYA_SHARED_OPTIONS", "SARAMEYA_SOAK"}
"""Variables that have the prefix, but are no keys of an app: from the supervisor to its workers, and for our own tests.
"""
_SERVICE_LINK = re.compile(r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
"""Variables that Kubernetes sets in every pod for a service whose name begins with `sarameya`."""

Read = Callable[[str], Any]


@attrs.frozen
class Variable:
    """A value from an environment variable or a command-line argument, with its name and the key that it overrides."""

    name: str
    key: str
    value: Any = attrs.field(repr=False)  # it may be a secret


Problem = tuple[str, str]
"""A mistake: its key (empty if it may belong to any key), and a line of text."""
Environment = tuple[list[Variable], list[Problem]]
"""The variables that are set, and the mistakes in them."""


def variables(environ: Mapping[str, str], service_keys: Mapping[str, Any]) -> Environment:
    """Return the app values in the environment, and the mistakes in it.

    Args:
        environ: The environment variables.
        service_keys: The keys of `[service]` with their types.
    """
    known = _known(service_keys)
    found: list[Variable] = []
    problems: list[Problem] = []
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in IGNORED:
            continue
        place = _place(name, known)
        if place is None:
            if not _SERVICE_LINK.fullmatch(name):
                problems.append(_unknown(name, known))
            continue
        key, read, is_file = place
        if is_file and name.removesuffix(_FILE) in environ:
            problems.append((key, f"{name} and {name.removesuffix(_FILE)} are both set: set one of them"))
            continue
        try:
            found.append(Variable(name, key, _read_file(key, environ[name], read) if is_file else read(environ[name])))
        except ValueError as error:
            problems.append((key, f"{name}: {error}"))
    return found, problems


def _known(service_keys: Mapping[str, Any]) -> dict[str, tuple[str, Read]]:
    """Return the key of each variable, and the reader of its value. Handler options are not included."""
    keys: dict[str, tuple[str, Read]] = {
        "BOOTSTRAP_SERVERS": ("bootstrap_servers", _list),
        "GROUP": ("group", _non_empty),
        "TOPICS": ("topics", _list),
        "TOPICS_PATTERN": ("topics_pattern", str),
        "PROPERTIES": ("properties", str),
        "HANDLER_NAME": ("handler.name", str),
    }
    for option, kind in get_type_hints(Config).items():
        keys[f"CONFIG_{option.upper()}"] = (f"config.{option}", _reader(kind))
    for key, kind in service_keys.items():
        keys[f"SERVICE_{key.upper()}"] = (f"service.{key}", _reader(kind))
    return {PREFIX + name: place for name, place in keys.items()}


def _place(name: str, known: Mapping[str, tuple[str, Read]]) -> tuple[str, Read, bool] | None:
    """Return the key, the reader of the value, and whether the value is in a file. None for an unknown name."""
    if name in known:
        return *known[name], False
    if name.endswith(_FILE) and name.removesuffix(_FILE) in known:
        return *known[name.removesuffix(_FILE)], True
    if match := _HANDLER_OPTION.fullmatch(name):
        option = match["option"].removesuffix(_FILE).lower()
        return f"handler.options.{option}", str if looks_secret(option) else toml_or_text, name.endswith(_FILE)
    return None


def _unknown(name: str, known: Mapping[str, Any]) -> Problem:
    plain = name.removesuffix(_FILE)
    *begin, option = plain.split("_", _PREFIX_WORDS)
    if (
        len(begin) == _PREFIX_WORDS
        and option
        and (meant := difflib.get_close_matches("_".join(begin), [_HANDLER_OPTIONS], 1, _LIKENESS))
    ):
        near = [f"{meant[0]}_{option}"]
    else:
        near = difflib.get_close_matches(plain, known, n=1)
    hint = f"did you mean {near[0]}{name.removeprefix(plain)}? " if near else ""
    key = next((key for beginning, key in _KEY_BY_PREFIX.items() if name.startswith(beginning)), "")
    return key, f"{name}: no such variable; {hint}{IN_THE_REFERENCE}"


def _read_file(key: str, path: str, read: Read) -> Any:
    """Read the value from a file.

    The file of a secret option contains the secret itself: a text like `env:X` in it is not a reference.
    """
    text = text_of_file(path)
    return Secret(text) if read is _secret else read(text)


# -- values ------------------------------------------------------------------------------------------


def toml_or_text(text: str) -> Any:
    """Return the value of the text parsed as TOML. Return the text unchanged if it is not TOML."""
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return table["value"] if len(table) == 1 else text


def _list(text: str) -> list[Any]:
    """Return the parts between commas, or a TOML array."""
    value = toml_or_text(text)
    return value if isinstance(value, list) else [part.strip() for part in text.split(",") if part.strip()]


def _non_empty(text: str) -> str:
    if not text:
        raise ValueError("must not be empty: unset it")
    return text


def _secret(text: str) -> str:
    """Return the text unchanged: `Secret.of` reads it later."""
    return text


def _reader(kind: Any) -> Read:
    """Return the reader for values of this type. A `str` or a `Literal` is never parsed as TOML."""
    kinds = set(_alternatives(kind)) - {NoneType}
    if kinds == {Secret}:
        return _secret
    if any(get_origin(alternative) is tuple for alternative in kinds):
        return _list
    is_text = all(alternative is str or get_origin(alternative) is Literal for alternative in kinds)
    return str if is_text else toml_or_text


def _alternatives(kind: Any) -> Iterator[Any]:
    if get_origin(kind) in (Union, UnionType):
        for inner in get_args(kind):
            yield from _alternatives(inner)
    else:
        yield kind
