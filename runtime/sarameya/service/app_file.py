"""The app file: TOML in, an `App` out, or every mistake in it at once, each by file, key, value and what is allowed.

Owns the file's shape only: the options under `[config]` are `sarameya.Config`'s, those under
`[handler.options]` the handler's own.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import attrs
from cattrs import ClassValidationError, Converter
from cattrs.errors import AttributeValidationNote, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn

from sarameya.config import Config
from sarameya.errors import ConfigError, SarameyaError
from sarameya.option_kinds import unknown_option

FailurePolicy = Literal["stop", "restart"]

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/,\[\]]+):([0-9]{1,5})")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class AppFileError(SarameyaError):
    """The app file cannot be used. `problems` holds one line for each mistake in it."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        self.problems = tuple(f"{path}: {problem}" for problem in problems)
        super().__init__("\n".join(self.problems))


# -- what is allowed -----------------------------------------------------------------------------


@attrs.frozen
class _Rule:
    """What a value must be: the test, and the words for it."""

    accepts: Callable[[Any], bool]
    allowed: str

    def structure(self, value: Any, _: Any) -> Any:
        if not self.accepts(value):
            raise _Refused(self.allowed)
        return tuple(value) if isinstance(value, list) else value


class _Refused(ValueError):
    """A value broke its rule; the text says what is allowed."""


def _is_address(value: object) -> bool:
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    return match is not None and 0 < int(match[2]) < 65536


def _is_topic(value: object) -> bool:
    return isinstance(value, str) and _TOPIC.fullmatch(value) is not None


def _is_pattern(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(value) and re.compile(value) is not None
    except re.error:
        return False


def _list_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(accepts, value))


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


_ADDRESSES = _Rule(_list_of(_is_address), "must be a non-empty list of 'host:port' strings")
_TOPICS = _Rule(
    _list_of(_is_topic), "must be a non-empty list of topic names (1 to 249 of the characters a-z A-Z 0-9 . _ -)"
)
_PATTERN = _Rule(_is_pattern, "must be a regular expression that a topic's whole name matches, for example 'orders-.*'")
_NAME = _Rule(lambda v: isinstance(v, str) and bool(v), "must be a non-empty string")
_TABLE = _Rule(lambda v: isinstance(v, dict), "must be a table")
_COUNT = _Rule(lambda v: type(v) is int and v >= 1, "must be a whole number of at least 1")
_SECONDS = _Rule(_is_seconds, "must be a number above 0")
_BOOLEAN = _Rule(lambda v: isinstance(v, bool), "must be true or false")
_POLICY = _Rule(
    lambda v: v in get_args(FailurePolicy), f"must be one of {', '.join(map(repr, get_args(FailurePolicy)))}"
)


# -- the shape -----------------------------------------------------------------------------------


@attrs.frozen
class HandlerSection:
    """`[handler]`: which handler, and `[handler.options]`, its own."""

    name: Annotated[str, _NAME]
    options: Annotated[Mapping[str, Any], _TABLE] = attrs.field(factory=dict)


@attrs.frozen
class ServiceSection:
    """`[service]`: how many members, and what happens when one fails."""

    workers: Annotated[int, _COUNT] = 1
    """Members run here: a process each, or tasks of one process if `in_process`."""
    in_process: Annotated[bool, _BOOLEAN] = False
    on_failure: Annotated[FailurePolicy, _POLICY] = "stop"
    restart_backoff: Annotated[float, _SECONDS] = 1.0
    """Seconds before the first restart; it doubles with each failure, up to `restart_backoff_max`."""
    restart_backoff_max: Annotated[float, _SECONDS] = 60.0


@attrs.frozen
class App:
    """An app file, read and checked."""

    bootstrap_servers: Annotated[tuple[str, ...], _ADDRESSES]
    group: Annotated[str, _NAME]
    handler: HandlerSection
    topics: Annotated[tuple[str, ...], _TOPICS] = ()
    topics_pattern: Annotated[str | None, _PATTERN] = None
    """A regular expression; every topic whose whole name it matches, now or later. It stands in for `topics`."""
    config: Config = attrs.field(factory=Config)
    service: ServiceSection = attrs.field(factory=ServiceSection)


def load_app(path: Path) -> App:
    """The app in the file at `path`. Raises AppFileError."""
    table = _read(path)
    problems = list(_topics_problems(table))
    try:
        app: App = _CONVERTER.structure(table, App)
        problems += _options_of_nothing(app)
    except ClassValidationError as error:
        problems += _problems(error, table)
    if problems:
        raise AppFileError(path, problems)
    return app


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AppFileError(path, [f"cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise AppFileError(path, [f"is not UTF-8 text, as TOML must be (byte {error.start})"]) from None
    except tomllib.TOMLDecodeError as error:
        raise AppFileError(path, [f"is not TOML: {error}"]) from None


def _converter() -> Converter:
    converter = Converter()
    converter.register_structure_hook_factory(_has_rule, lambda kind: _rule_of(kind).structure)
    converter.register_structure_hook_factory(attrs.has, lambda kind: _table_hook(kind, converter))
    converter.register_structure_hook(Config, lambda value, _: Config.from_mapping(_TABLE.structure(value, _)))
    return converter


def _has_rule(kind: Any) -> bool:
    return get_origin(kind) is Annotated and isinstance(kind.__metadata__[0], _Rule)


def _rule_of(kind: Any) -> _Rule:
    rule: _Rule = kind.__metadata__[0]
    return rule


def _table_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    structure = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)
    return lambda value, _: structure(_TABLE.structure(value, kind), kind)


_CONVERTER = _converter()


# -- what was wrong ------------------------------------------------------------------------------

_MISSING = {
    "bootstrap_servers": 'add for example bootstrap_servers = ["localhost:9092"]',
    "group": 'add for example group = "orders-landing"',
    "handler": 'add a [handler] table with a name, for example name = "print"',
    "handler.name": 'add for example name = "print" under [handler]',
}


def _topics_problems(table: Mapping[str, Any]) -> Iterator[str]:
    if "topics" in table and "topics_pattern" in table:
        yield "topics and topics_pattern are both given: give one of them"
    elif "topics" not in table and "topics_pattern" not in table:
        yield "topics is missing: add for example topics = [\"orders\"], or topics_pattern = 'orders-.*'"


def _options_of_nothing(app: App) -> Iterator[str]:
    """A topic's options that change nothing, since the topic is not read: its name is not what was meant."""
    for topic in app.config.topics:
        if app.topics_pattern is not None:
            is_read, read = bool(re.fullmatch(app.topics_pattern, topic)), f"match {app.topics_pattern!r}"
        else:
            is_read, read = topic in app.topics, f"are {', '.join(app.topics)}"
        if not is_read:
            yield f"config.topics.{topic}: is not read; those that are read {read}"


def _problems(error: BaseException, value: Any, key: str = "") -> Iterator[str]:
    """One line for each mistake in the tree that cattrs raised; `value` is what stood at `key`."""
    prefix = f"{key}." if key else ""
    match error:
        case ClassValidationError():
            for inner in error.exceptions:
                name = _attribute(inner)
                if name is None:
                    yield from _problems(inner, value, key)
                else:
                    yield from _problems(inner, value.get(name), prefix + name)
        case ForbiddenExtraKeysError():
            known = {field.name for field in attrs.fields(error.cl)}
            for extra in sorted(error.extra_fields):
                yield f"{prefix}{extra} = {value[extra]!r}: {unknown_option(extra, known)}"
        case ConfigError():
            yield f"{prefix}{error}"
        case KeyError():
            yield f"{key} is missing: {_MISSING[key]}"
        case _Refused():
            yield f"{key} = {value!r}: {error}"
        case _:
            raise error


def _attribute(error: BaseException) -> str | None:
    """The attribute that cattrs was at when `error` was raised."""
    notes = getattr(error, "__notes__", ())
    return next((note.name for note in notes if isinstance(note, AttributeValidationNote)), None)
