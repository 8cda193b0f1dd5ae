"""The app file: TOML in, an `App` out, or every mistake in it at once, each by file, key, value and what is allowed.

Owns the file's shape only: the options under `[config]` are `sarameya.Config`'s, those under
`[handler.options]` the handler's own. `layers.py` puts before it what the
environment sets, and beneath it what a `.properties` file gives.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs
from cattrs import ClassValidationError, Converter
from cattrs.errors import AttributeValidationNote, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn

from sarameya.config import Config
from sarameya.config.mistakes import conflicts_of, mistakes
from sarameya.config.properties import kafkas_option
from sarameya.errors import ConfigError, SarameyaError
from sarameya.option_kinds import unknown_option
from sarameya.secret import masked
from sarameya.service.environment import Environment, Problem, Variable, variables
from sarameya.service.importing import NotImportedError, imported
from sarameya.service.layers import GIVEN_BENEATH, Layers, layered
from sarameya.service.log_lines import LogFormat

FailurePolicy = Literal["stop", "restart"]

_Shape = TypeVar("_Shape")

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/,@\[\]]+):([0-9]{1,5})")
_HOST_NAME = re.compile(r"\*|(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class AppFileError(SarameyaError):
    """The app file cannot be used. `problems` holds one line for each mistake in it."""

    permanent = True

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


def _is_host_name(value: object) -> bool:
    return isinstance(value, str) and _HOST_NAME.fullmatch(value) is not None


def host_name(value: str) -> str:
    """A name to be asked for by, as it is. Raises ValueError, which says what it must be."""
    if not _is_host_name(value):
        raise ValueError(_A_HOST)
    return value


def listened(value: str) -> str:
    """An address to listen at, as it is. Raises ValueError, which says what it must be."""
    if not _LISTENED.accepts(value):
        raise ValueError(_LISTENED.allowed)
    return value


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
_LISTENED = _Rule(
    lambda v: _is_address(v) or (isinstance(v, str) and v.endswith(":0") and _is_address(v + "1")),
    "must be HOST:PORT to listen at, for example '127.0.0.1:8080' (port 0: one that is free)",
)
_A_HOST = "must be a host's name without a port, '*.example.com' for all below one, or '*'"
_HOSTS = _Rule(_list_of(_is_host_name), f"must be a non-empty list, each of which {_A_HOST}")
_POLICY = _Rule(
    lambda v: v in get_args(FailurePolicy), f"must be one of {', '.join(map(repr, get_args(FailurePolicy)))}"
)
_FORMAT = _Rule(lambda v: v in get_args(LogFormat), f"must be one of {', '.join(map(repr, get_args(LogFormat)))}")


# -- the shape -----------------------------------------------------------------------------------


@attrs.frozen
class HandlerSection:
    """`[handler]`: which handler, and `[handler.options]`, its own."""

    name: Annotated[str, _NAME]
    options: Annotated[Mapping[str, Any], _TABLE] = attrs.field(
        factory=dict, repr=lambda options: repr(masked("handler.options", options))
    )


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
    log_format: Annotated[LogFormat, _FORMAT] = "auto"
    """`auto`: text on a terminal, JSON elsewhere."""
    http: Annotated[str | None, _LISTENED] = None
    """HOST:PORT where the status page, metrics and health are served; they are not where this is left out."""
    http_hosts: Annotated[tuple[str, ...], _HOSTS] = ()
    """Names by which they may be asked for, beside addresses and this machine's own: `orders.example.com`,
    `*.example.com` for all below one, `*` for any. A proxy's name, or that by which a monitor finds it."""
    otel: Annotated[bool, _BOOLEAN] = False
    """Whether metrics and spans are sent to an OpenTelemetry collector, by OTEL_EXPORTER_OTLP_ENDPOINT and its kin."""
    stall_after: Annotated[float, _SECONDS] = 300.0
    """Seconds for which a partition may make no progress, and a rebalance may last, before `/readyz` says so."""


SERVICE_KEYS = get_type_hints(ServiceSection)


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
    properties: Annotated[str | None, _NAME] = None
    """A `.properties` file of Kafka's own names, beside the app file: what this one does not say."""
    service: ServiceSection = attrs.field(factory=ServiceSection)


@attrs.frozen
class AskedSection:
    """What of an app is about asking its cluster."""

    bootstrap_servers: Annotated[tuple[str, ...], _ADDRESSES]
    group: Annotated[str | None, _NAME] = None
    config: Config = attrs.field(factory=Config)
    properties: Annotated[str | None, _NAME] = None


OF_RUNNING = {field.name for field in attrs.fields(App)} - {field.name for field in attrs.fields(AskedSection)}
"""Keys of an app that are no matter where its cluster is asked."""


@attrs.frozen
class Loaded:
    """An app, and where its values come from."""

    app: App
    layers: Layers


def load_app(path: Path, environ: Mapping[str, str] | None = None) -> App:
    """The app in the file at `path`, under this process's environment or another. Raises AppFileError."""
    return load(path, environ).app


def load(path: Path, environ: Mapping[str, str] | None = None, arguments: Sequence[Variable] = ()) -> Loaded:
    """As `load_app`, with where each value comes from; `arguments` go before all others."""
    return structured(*layered(read(path), path, environment(environ), arguments), MISSING)


def environment(environ: Mapping[str, str] | None = None) -> Environment:
    """What this process's environment says of an app, or another."""
    return variables(os.environ if environ is None else environ, SERVICE_KEYS)


def structured(layers: Layers, wrong: Iterable[Problem], remedies: Mapping[str, str]) -> Loaded:
    """The app that layers amount to. `wrong` is what is wrong with them already; `remedies` say what to do where a key
    is missing. Raises AppFileError."""
    problems = list(_topics_problems(layers.table, remedies))
    return Loaded(structured_as(App, layers, wrong, remedies, problems, _options_of_nothing), layers)


def structured_as(
    kind: type[_Shape],
    layers: Layers,
    wrong: Iterable[Problem],
    remedies: Mapping[str, str],
    problems: Iterable[Problem] = (),
    check: Callable[[_Shape], Iterable[Problem]] = lambda _: (),
) -> _Shape:
    """As `structured`, of whatever shape: an app's, or of some of its keys. `problems` are known already, `check` finds
    those of what is made."""
    table, found = layers.table, list(problems)
    if layers.is_short:
        table, of_options = _without_config(table)
        found += of_options
    try:
        made: _Shape = _CONVERTER.structure(table, kind)
        found += check(made)
    except ClassValidationError as error:
        found += _problems(error, table, remedies)
    if layers.is_short:
        found = [(key, told) for key, told in found if key in table or key not in GIVEN_BENEATH]
    told = [*(layers.told(*problem) for problem in found), *(line for _, line in wrong)]
    if told:
        raise AppFileError(layers.path, told)
    return made


def read(path: Path) -> dict[str, Any]:
    """The file's table. Raises AppFileError."""
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
    converter.register_structure_hook(Config, lambda value, _: config_of(_TABLE.structure(value, _)))
    return converter


def config_of(options: Mapping[str, Any], prefix: str = "") -> Config:
    """As `Config.from_mapping`, but raises a group of ConfigErrors where there are several mistakes. A file, or a
    command line, cannot hold a function, but name one."""
    options, wrong = _options(options, prefix)
    wrong = wrong or list(conflicts_of(options, prefix))
    if len(wrong) > 1:
        raise ExceptionGroup("options", wrong)
    if wrong:
        raise wrong[0]
    return Config.from_mapping(options, prefix=prefix)


def _options(options: Mapping[str, Any], prefix: str) -> tuple[Mapping[str, Any], list[ConfigError]]:
    """The options, and what is wrong with each by itself."""
    wrong: list[ConfigError] = []
    if isinstance(named := options.get("sasl_token"), str):
        try:
            token = imported(named, "function")
        except NotImportedError as problem:
            token = None
            wrong.append(ConfigError(f"{prefix}sasl_token", named, str(problem)))
        options = {**options, "sasl_token": token}
    return options, [*wrong, *mistakes(options, prefix)]


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

MISSING = {
    "topics": "add for example topics = [\"orders\"], or topics_pattern = 'orders-.*'",
    "bootstrap_servers": 'add for example bootstrap_servers = ["localhost:9092"]',
    "group": 'add for example group = "orders-landing"',
    "handler": 'add a [handler] table with a name, for example name = "print"',
    "handler.name": 'add for example name = "print" under [handler]',
}


def _topics_problems(table: Mapping[str, Any], remedies: Mapping[str, str]) -> Iterator[Problem]:
    if "topics" in table and "topics_pattern" in table:
        yield "", "topics and topics_pattern are both given: give one of them"
    elif "topics" not in table and "topics_pattern" not in table:
        yield "topics", f"topics is missing: {remedies['topics']}"


def _without_config(table: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Problem]]:
    """The table without its options, and what is wrong with these, each by itself: what they go with may stand where it
    could not be read."""
    options = table.get("config", {})
    if not isinstance(options, Mapping):
        return table, []
    _, wrong = _options(options, "")
    return {**table, "config": {}}, [(f"config.{error.option}", f"config.{error}") for error in wrong]


def _options_of_nothing(app: App) -> Iterator[Problem]:
    """A topic's options that change nothing, since the topic is not read: its name is not what was meant."""
    for topic in app.config.topics:
        if app.topics_pattern is not None:
            is_read, read = bool(re.fullmatch(app.topics_pattern, topic)), f"match {app.topics_pattern!r}"
        else:
            is_read, read = topic in app.topics, f"are {', '.join(app.topics)}"
        if not is_read:
            yield "config.topics", f"config.topics.{topic}: is not read; those that are read {read}"


def _problems(error: BaseException, value: Any, remedies: Mapping[str, str], key: str = "") -> Iterator[Problem]:
    """One line, and its key, for each mistake in the tree that cattrs raised; `value` is what stood at `key`."""
    prefix = f"{key}." if key else ""
    match error:
        case ClassValidationError():
            for inner in error.exceptions:
                name = _attribute(inner)
                if name is None:
                    yield from _problems(inner, value, remedies, key)
                else:
                    yield from _problems(inner, value.get(name), remedies, prefix + name)
        case ForbiddenExtraKeysError():
            known = {field.name for field in attrs.fields(error.cl)}
            for extra in sorted(error.extra_fields):
                told = _kafkas(extra, value[extra]) if error.cl is App else ""
                told = told or unknown_option(extra, known)
                yield prefix + extra, f"{prefix}{extra} = {masked(extra, value[extra])!r}: {told}"
        case ExceptionGroup():
            for inner in error.exceptions:
                yield from _problems(inner, value, remedies, key)
        case ConfigError():
            yield prefix + error.option, f"{prefix}{error}"
        case KeyError():
            yield key, f"{key} is missing: {remedies[key]}"
        case _Refused():
            yield key, f"{key} = {masked(key, value)!r}: {error}"
        case _:
            raise error


def _kafkas(name: str, value: Any) -> str:
    """Return which option a name of Kafka's at the top of the file means, empty where it is none of Kafka's."""
    if name.replace("_", ".") == "group.id":
        return "no such option; Kafka's group.id is `group` here"
    told = kafkas_option(Config, name, value)
    return f"{told}, under [config]" if told else ""


def _attribute(error: BaseException) -> str | None:
    """The attribute that cattrs was at when `error` was raised."""
    notes = getattr(error, "__notes__", ())
    return next((note.name for note in notes if isinstance(note, AttributeValidationNote)), None)
