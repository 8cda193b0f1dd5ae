"""The app file: parses TOML into an `App`, or reports all mistakes at once.

Each mistake has the file, the key, the value and the allowed values. Only the shape of the file is checked here. The
options under `[config]` are those of `sarameya.Config`, and the handler checks its own under `[handler.options]`.
`layers.py` merges the other sources: the environment overrides the file, and the file overrides a `.properties` file.
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
from sarameya.model import TOPIC_NAME
from sarameya.option_kinds import unknown_option
from sarameya.secret import masked
from sarameya.service.app.environment import Environment, Problem, Variable, variables
from sarameya.service.app.imports import NotImportedError, import_name
from sarameya.service.app.layers import PROPERTIES_KEYS, Layers, stack_layers

FailurePolicy = Literal["stop", "restart"]
LogFormat = Literal["auto", "text", "json"]

_Shape = TypeVar("_Shape")

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/,@\[\]]+):([0-9]{1,5})")
_HOST_NAME = re.compile(r"\*|(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


class AppFileError(SarameyaError):
    """The app file cannot be used. `problems` has one line for each mistake."""

    permanent = True

    def __init__(self, path: Path, problems: list[str]) -> None:
        self.problems = tuple(f"{path}: {problem}" for problem in problems)
        super().__init__("\n".join(self.problems))


# -- rules ---------------------------------------------------------------------------------------


@attrs.frozen
class _Rule:
    """A test for a value, and a text that describes the allowed values."""

    accepts: Callable[[Any], bool]
    allowed: str

    def structure(self, value: Any, _: Any) -> Any:
        if not self.accepts(value):
            raise _RuleBrokenError(self.allowed)
        return tuple(value) if isinstance(value, list) else value


class _RuleBrokenError(ValueError):
    """A value broke its rule. The message describes the allowed values."""


def _is_address(value: object) -> bool:
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    return match is not None and 0 < int(match[2]) < 65536


def _is_topic(value: object) -> bool:
    return isinstance(value, str) and TOPIC_NAME.fullmatch(value) is not None


def _is_pattern(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(value) and re.compile(value) is not None
    except (re.error, OverflowError, RecursionError):
        return False


def _is_host_name(value: object) -> bool:
    return isinstance(value, str) and _HOST_NAME.fullmatch(value) is not None


def host_name(value: str) -> str:
    """Check a host name for the `Host` header, and return it unchanged.

    Raises:
        ValueError: The text is not a host name. The message describes the allowed form.
    """
    if not _is_host_name(value):
        raise ValueError(_A_HOST)
    return value


def listen_address(value: str) -> str:
    """Check an address to listen at, and return it unchanged.

    Raises:
        ValueError: The text is not such an address. The message describes the allowed form.
    """
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
    "must be HOST:PORT to listen at, for example '127.0.0.1:8080' (port 0 takes a free port)",
)
_A_HOST = "must be a host's name without a port, '*.example.com' for all names below a domain, or '*'"
_HOSTS = _Rule(_list_of(_is_host_name), f"must be a non-empty list, each of which {_A_HOST}")
_POLICY = _Rule(
    lambda v: v in get_args(FailurePolicy), f"must be one of {', '.join(map(repr, get_args(FailurePolicy)))}"
)
_FORMAT = _Rule(lambda v: v in get_args(LogFormat), f"must be one of {', '.join(map(repr, get_args(LogFormat)))}")


# -- the shape -----------------------------------------------------------------------------------


@attrs.frozen
class HandlerSection:
    """The table `[handler]`: the handler's name, and its own options under `[handler.options]`."""

    name: Annotated[str, _NAME]
    options: Annotated[Mapping[str, Any], _TABLE] = attrs.field(
        factory=dict, repr=lambda options: repr(masked("handler.options", options))
    )


@attrs.frozen
class ServiceSection:
    """The table `[service]`: the number of members, and what to do when one fails."""

    workers: Annotated[int, _COUNT] = 1
    """Members of the group: a process each or, with `in_process`, tasks of one process."""
    in_process: Annotated[bool, _BOOLEAN] = False
    """Run all members in one process."""
    on_failure: Annotated[FailurePolicy, _POLICY] = "stop"
    """Reaction to a failed member: end the service, or restart the member with backoff.

    Permanent errors end the service in either case.
    """
    restart_backoff: Annotated[float, _SECONDS] = 1.0
    """Seconds before the first restart. They double with each failure, up to `restart_backoff_max`."""
    restart_backoff_max: Annotated[float, _SECONDS] = 60.0
    """Longest wait before a restart, in seconds. A member that ran for longer starts at `restart_backoff` again."""
    log_format: Annotated[LogFormat, _FORMAT] = "auto"
    """The format of log lines. `auto` means text on a terminal and JSON elsewhere."""
    http: Annotated[str | None, _LISTENED] = None
    """HOST:PORT of the status page, metrics and health. Nothing is served without it."""
    http_hosts: Annotated[tuple[str, ...], _HOSTS] = ()
    """Host names that requests may use, in addition to addresses and this machine's own names.

    `orders.example.com` is one name, `*.example.com` all names below a domain, `*` any name. Give the name of a proxy,
    or the name that a monitor uses.
    """
    otel: Annotated[bool, _BOOLEAN] = False
    """Send metrics and spans to the OpenTelemetry collector that OTEL_EXPORTER_OTLP_ENDPOINT (or the like) names."""
    stall_after: Annotated[float, _SECONDS] = 300.0
    """Seconds without progress of a partition, or of one rebalance, after which `/readyz` responds 503."""


SERVICE_KEYS = get_type_hints(ServiceSection)


@attrs.frozen
class App:
    """An app file, read and checked."""

    bootstrap_servers: Annotated[tuple[str, ...], _ADDRESSES]
    group: Annotated[str, _NAME]
    handler: HandlerSection
    topics: Annotated[tuple[str, ...], _TOPICS] = ()
    topics_pattern: Annotated[str | None, _PATTERN] = None
    """A regular expression in place of `topics`. Every topic whose whole name matches is read, now or later."""
    config: Config = attrs.field(factory=Config)
    properties: Annotated[str | None, _NAME] = None
    """A `.properties` file with Kafka's own names, relative to the app file. The app file overrides its values."""
    service: ServiceSection = attrs.field(factory=ServiceSection)


@attrs.frozen
class ClusterSection:
    """The keys of an app that name a command's cluster and group, with the client options."""

    bootstrap_servers: Annotated[tuple[str, ...], _ADDRESSES]
    group: Annotated[str | None, _NAME] = None
    config: Config = attrs.field(factory=Config)
    properties: Annotated[str | None, _NAME] = None


RUN_KEYS = {field.name for field in attrs.fields(App)} - {field.name for field in attrs.fields(ClusterSection)}
"""Keys of an app that only a running app needs, not a command that uses its cluster."""


@attrs.frozen
class Loaded:
    """An app, and the origin of each of its values."""

    app: App
    layers: Layers


def load_app(path: Path, environ: Mapping[str, str] | None = None) -> App:
    """Return the app in the file at `path`.

    Args:
        path: The app file.
        environ: The environment variables; this process's own by default.

    Raises:
        AppFileError: The file has mistakes; all are listed.
    """
    return load(path, environ).app


def load(path: Path, environ: Mapping[str, str] | None = None, arguments: Sequence[Variable] = ()) -> Loaded:
    """Return the app in the file at `path`, and the origin of each value.

    Args:
        path: The app file.
        environ: The environment variables; this process's own by default.
        arguments: Values from the command line. They override all others.

    Raises:
        AppFileError: The file has mistakes; all are listed.
    """
    return app_from_layers(*stack_layers(read(path), path, environment(environ), arguments), MISSING)


def environment(environ: Mapping[str, str] | None = None) -> Environment:
    """Return the app values that the environment variables give: this process's own by default."""
    return variables(os.environ if environ is None else environ, SERVICE_KEYS)


def app_from_layers(layers: Layers, wrong: Iterable[Problem], remedies: Mapping[str, str]) -> Loaded:
    """Return the app that the layers describe.

    Args:
        layers: The values and their origins.
        wrong: Mistakes that are known already.
        remedies: For each required key, what to do if it is missing.

    Raises:
        AppFileError: There are mistakes; all are listed.
    """
    problems = list(_topics_problems(layers.table, remedies))
    return Loaded(object_from_layers(App, layers, wrong, remedies, problems, _unread_topics), layers)


def object_from_layers(
    kind: type[_Shape],
    layers: Layers,
    wrong: Iterable[Problem],
    remedies: Mapping[str, str],
    problems: Iterable[Problem] = (),
    check: Callable[[_Shape], Iterable[Problem]] = lambda _: (),
) -> _Shape:
    """Return the object of class `kind` that the layers describe: an app, or some of its keys.

    Args:
        kind: The class, whose fields carry their rules.
        layers: The values and their origins.
        wrong: Mistakes in the layers. Their lines are complete.
        remedies: For each required key, what to do if it is missing.
        problems: Mistakes of single keys. Their origin is added.
        check: Finds mistakes in the finished object.

    Raises:
        AppFileError: There are mistakes; all are listed.
    """
    table, found = layers.table, list(problems)
    if layers.is_short:  # the `.properties` file could not be read, so that options may be missing
        table, option_problems = _without_config(table)
        found += option_problems
    try:
        result: _Shape = _CONVERTER.structure(table, kind)
        found += check(result)
    except ClassValidationError as error:
        found += _problems(error, table, remedies)
    if layers.is_short:  # the file may have the keys that are missing
        found = [(key, line) for key, line in found if key in table or key not in PROPERTIES_KEYS]
    lines = [*(layers.with_origin(*problem) for problem in found), *(line for _, line in wrong)]
    if lines:
        raise AppFileError(layers.path, lines)
    return result


def read(path: Path) -> dict[str, Any]:
    """Return the table in the file.

    Raises:
        AppFileError: The file cannot be read, or is not TOML.
    """
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
    converter.register_structure_hook(Config, lambda value, _: _config(_TABLE.structure(value, _)))
    return converter


def _config(options: Mapping[str, Any]) -> Config:
    """Return the Config for these options, as `Config.from_mapping` does.

    A file or a command line cannot contain a function. `sasl_token` is the name of a function, which is imported here.

    Raises:
        ExceptionGroup: Options are wrong; it has a ConfigError for each.
    """
    options, wrong = _options(options)
    if wrong := wrong or list(conflicts_of(options)):
        raise ExceptionGroup("options", wrong)
    return Config.from_mapping(options)


def _options(options: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[ConfigError]]:
    """Return the options with the token function imported, and a ConfigError for each wrong option."""
    wrong: list[ConfigError] = []
    if isinstance(named := options.get("sasl_token"), str):
        try:
            token = import_name(named, "function")
        except NotImportedError as problem:
            token = None
            wrong.append(ConfigError("sasl_token", named, str(problem)))
        options = {**options, "sasl_token": token}
    return options, [*wrong, *mistakes(options)]


def _has_rule(kind: Any) -> bool:
    return get_origin(kind) is Annotated and isinstance(kind.__metadata__[0], _Rule)


def _rule_of(kind: Any) -> _Rule:
    rule: _Rule = kind.__metadata__[0]
    return rule


def _table_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    structure = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)
    return lambda value, _: structure(_TABLE.structure(value, kind), kind)


_CONVERTER = _converter()


# -- mistakes ------------------------------------------------------------------------------------

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
    """Return the table without the options under `[config]`, and the mistakes of single options.

    Combinations are not checked: the other option may be in the `.properties` file that could not be read.
    """
    options = table.get("config", {})
    if not isinstance(options, Mapping):
        return table, []
    _, wrong = _options(options)
    return {**table, "config": {}}, [(f"config.{error.option}", f"config.{error}") for error in wrong]


def _unread_topics(app: App) -> Iterator[Problem]:
    """Find options of topics that are not read.

    Such an option changes nothing: the topic's name is probably mistyped.
    """
    for topic in app.config.topics:
        if app.topics_pattern is not None:
            is_read, read = bool(re.fullmatch(app.topics_pattern, topic)), f"match {app.topics_pattern!r}"
        else:
            is_read, read = topic in app.topics, f"are {', '.join(app.topics)}"
        if not is_read:
            yield "config.topics", f"config.topics.{topic}: this topic is not read; the topics that are read {read}"


def _problems(error: BaseException, value: Any, remedies: Mapping[str, str], key: str = "") -> Iterator[Problem]:
    """Yield a key and a line for each mistake in the tree that cattrs raised. `value` is the value of `key`."""
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
                advice = _kafka_name_advice(extra, value[extra]) if error.cl is App else ""
                advice = advice or unknown_option(extra, known)
                yield prefix + extra, f"{prefix}{extra} = {masked(extra, value[extra])!r}: {advice}"
        case ExceptionGroup():
            for inner in error.exceptions:
                yield from _problems(inner, value, remedies, key)
        case ConfigError():
            yield prefix + error.option, f"{prefix}{error}"
        case KeyError():
            yield key, f"{key} is missing: {remedies[key]}"
        case _RuleBrokenError():
            yield key, f"{key} = {masked(key, value)!r}: {error}"
        case _:
            raise error


def _kafka_name_advice(name: str, value: Any) -> str:
    """Return advice about one of Kafka's names at the top level of the file. Empty if Kafka has no such name."""
    if name.replace("_", ".") == "group.id":
        return "no such option; Kafka's group.id is `group` here"
    advice = kafkas_option(Config, name, value)
    return f"{advice}, under [config]" if advice else ""


def _attribute(error: BaseException) -> str | None:
    """Return the attribute at which cattrs raised the error."""
    notes = getattr(error, "__notes__", ())
    return next((note.name for note in notes if isinstance(note, AttributeValidationNote)), None)
