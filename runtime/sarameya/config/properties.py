"""Options by Kafka's own property names: `session.timeout.ms = 6000` is `session_timeout=6.0`.

Converts Kafka's values. Properties that cannot be options are reported, all at once. None is ignored: the user relies
on each property, even if it would change nothing here. Pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_origin, get_type_hints

import attrs

from sarameya.config.jaas import JAAS, OPTIONS, credentials
from sarameya.config.kafka_names import ALWAYS, ELSEWHERE, GIVEN_APART, MEANINGLESS, UNSUPPORTED
from sarameya.errors import ConfigError, PropertiesError
from sarameya.offset_policy import OffsetPolicy
from sarameya.option_kinds import IN_THE_REFERENCE, MOST_SECONDS, allowed, unknown_option
from sarameya.secret import Secret, masked

_Options = TypeVar("_Options", bound=attrs.AttrsInstance)


def from_properties(options: type[_Options], properties: Mapping[str, Any]) -> _Options:
    """Create options from Kafka's properties.

    Raises:
        PropertiesError: Lists all problems.
    """
    values, problems = _read(options, properties)
    names = {field.name: field.metadata.get("kafka") for field in attrs.fields(options)}
    if JAAS in properties:
        names |= dict.fromkeys(OPTIONS, JAAS)
    while True:
        try:
            created = options(**values)
        except ConfigError as error:  # conflicting options
            problem = f"as {error.option} = {error.value!r}, it {error.allowed}"
            problems.setdefault(names.get(error.option) or error.option, problem)
            if error.option in values:
                del values[error.option]
                continue
        if problems:
            raise _refused(properties, problems)
        return created


def values_of(options: type[_Options], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options that the properties set, each valid by itself.

    Options may still conflict, or require other options that are not set.

    Raises:
        PropertiesError: Lists all problems.
    """
    values, problems = _read(options, properties)
    if problems:
        raise _refused(properties, problems)
    return values


def _read(options: type[_Options], properties: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return values by option, and problems by property."""
    fields = {field.metadata["kafka"]: field for field in attrs.fields(options) if field.metadata.get("kafka")}
    types = get_type_hints(options)
    values: dict[str, Any] = {}
    problems = _java_stores(properties)
    for name, given in properties.items():
        if given is None:
            problems[name] = "has no value: leave it out"
            continue
        text = _text(given)
        try:
            if name == JAAS:
                values |= credentials(text)
            elif name in fields:
                field = fields[name]
                read = _NAMED.get(name) or _reader(types[field.name])
                values[field.name] = allowed(field, read(text))
            elif problem := _why_not(name, text, fields):
                problems[name] = problem
        except ConfigError as error:
            problems[name] = f"as {error.option} = {error.value!r}, it {error.allowed}"
        except ValueError as error:
            problems[name] = str(error)
    return values, problems


def no_such_option(options: type[attrs.AttrsInstance], name: str, value: Any) -> str:
    """Return the error text for the unknown option `name`."""
    known = {field.name for field in attrs.fields(options)}
    return kafkas_option(options, name, value) or unknown_option(name, known, listed=IN_THE_REFERENCE)


def kafkas_option(options: type[attrs.AttrsInstance], name: str, value: Any) -> str:
    """Return the error text for an option that has one of Kafka's names, or "" for any other name.

    Both spellings are known: `auto.offset.reset`, and `auto_offset_reset` as in other Python clients.
    """
    kafkas = {field.metadata["kafka"]: field for field in attrs.fields(options) if field.metadata.get("kafka")}
    dotted = name.replace("_", ".").lower()
    kafka_name = dotted if dotted in kafkas else ELSEWHERE.get(dotted, dotted)
    if kafka_name in kafkas:
        option = kafkas[kafka_name].name
        return f"no such option; Kafka's {dotted} is {option} here{_example(option, kafka_name, value, options)}"
    if kafka_name in GIVEN_APART:
        return f"no such option; Kafka's {dotted} is {_PLACES[kafka_name]}"
    for names in (UNSUPPORTED, MEANINGLESS):
        if kafka_name in names:
            return f"no such option; Kafka's {dotted} has no option here: {names[kafka_name]}"
    if kafka_name in ALWAYS:
        return f"no such option; Kafka's {dotted} has no option here: {ALWAYS[kafka_name][1]}"
    return ""


_PLACES = {
    "bootstrap.servers": "an app file's own `bootstrap_servers`, or the first argument of ConsumerGroup",
    "group.id": "an app file's own `group`, or the second argument of ConsumerGroup",
}
"""Where to set the properties of `GIVEN_APART`."""


def _example(option: str, kafka_name: str, value: Any, options: type[attrs.AttrsInstance]) -> str:
    """Return the option set to this value, such as ": session_timeout = 6.0"; empty if invalid or secret."""
    text = _text(value) if value is not None else ""
    if not text or masked(kafka_name, text) != text or masked(option, text) != text:
        return ""
    try:
        read = (_NAMED.get(kafka_name) or _reader(get_type_hints(options)[option]))(text)
    except (ConfigError, ValueError):
        return ""
    return f": {option} = {read!r}" if isinstance(read, str | int | float) and not isinstance(read, bool) else ""


def _refused(properties: Mapping[str, Any], problems: Mapping[str, str]) -> PropertiesError:
    return PropertiesError(tuple(_line(name, properties.get(name), problem) for name, problem in problems.items()))


def _line(name: str, given: Any, problem: str) -> str:
    value = "" if given is None else f" = {masked(name, given)!r}"
    return f"{name}{value}: {problem}"


def _text(given: Any) -> str:
    """Return a value as text, as in a file. In Python, a value may also be a number, a boolean or a list."""
    match given:
        case bool():
            return "true" if given else "false"
        case Secret():
            return given.reveal()
        case list() | tuple():
            return ",".join(map(str, given))
    return str(given).strip()


def _why_not(name: str, text: str, mapped: Mapping[str, Any]) -> str | None:
    """Return why a property is no option, or None if it states a fixed value."""
    if name in ALWAYS:
        values, reason = ALWAYS[name]
        possible = " or ".join(map(repr, sorted(values)))
        return None if text in values else f"can only be {possible} here: {reason}"
    if name in GIVEN_APART:
        return (
            f"is not an option: it is the argument {GIVEN_APART[name]} of ConsumerGroup, Consumer and Producer; "
            "ClientProperties reads it, too"
        )
    if name in UNSUPPORTED:
        return f"is not supported: {UNSUPPORTED[name]}"
    if name in MEANINGLESS:
        return f"has no meaning here: {MEANINGLESS[name]}"
    return _unknown(name, [JAAS, *mapped, *ALWAYS, *GIVEN_APART, *UNSUPPORTED, *MEANINGLESS, *ELSEWHERE], mapped)


def _java_stores(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return problems of Java keystores, Kafka's default for files without a stated type."""
    return {
        location: f"is a Java keystore without {kind} = PEM: {ALWAYS[kind][1]}"
        for location, kind in _STORES.items()
        if location in properties and kind not in properties
    }


_STORES = {
    "ssl.keystore.location": "ssl.keystore.type",
    "ssl.truststore.location": "ssl.truststore.type",
}


def _unknown(name: str, known: list[str], mapped: Mapping[str, Any]) -> str:
    kafka_names = {field.name: kafka_name for kafka_name, field in mapped.items()}
    if name in kafka_names:
        return f"is an option of Config, not a Kafka property; Kafka's name is {kafka_names[name]!r}"
    if name in ELSEWHERE:
        return f"is librdkafka's name; Kafka's is {ELSEWHERE[name]!r}"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if near and near[0] in ELSEWHERE:
        hint += f" That is librdkafka's name; Kafka's is {ELSEWHERE[near[0]]!r}"
    return f"is not a property of Kafka's clients{hint}"


# -- conversion of values ----------------------------------------------------------------------

_UNLIMITED = 2**31 - 1
"""Java's largest int, which stands for an unlimited duration."""


def _seconds(text: str) -> float:
    milliseconds = _whole(text, "must be a whole number of milliseconds")
    return MOST_SECONDS if milliseconds >= _UNLIMITED else milliseconds / 1000


def _whole(text: str, problem: str = "must be a whole number") -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(problem) from None


def _boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("must be true or false")


_POLICIES = {"earliest": "oldest", "latest": "newest", "none": "fail"}


def _policy(text: str) -> str:
    if text in _POLICIES:
        return _POLICIES[text]
    if text.startswith("by_duration:"):  # KIP-1106
        return text
    raise ValueError("must be 'earliest', 'latest', 'none' or, for example, 'by_duration:PT1H'")


_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}


def _strategies(text: str) -> tuple[str, ...]:
    """Convert a list of assignors: Java class names, or the names in the protocol and in librdkafka."""
    names = tuple(_ASSIGNORS.get(name, name) for name in listed(text))
    for name in names:
        if name not in _ASSIGNORS.values():
            raise ValueError(
                f"{name!r} is not one of Kafka's assignors ({', '.join(_ASSIGNORS)}); pass your own to "
                "ConsumerGroup(assignors=[...])"
            )
    return names


def listed(text: str) -> list[str]:
    """Return the parts of a list with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _text_or_none(text: str) -> str | None:
    return text or None


def _identification(text: str) -> bool:
    match text.lower():
        case "https":
            return True
        case "":
            return False
    raise ValueError("must be 'https', or empty for no check of the host's name")


_NAMED: Mapping[str, Callable[[str], Any]] = {"ssl.endpoint.identification.algorithm": _identification}
"""Converters of properties for which the option's type is not enough."""


_READERS: Mapping[Any, Callable[[str], Any]] = {
    float: _seconds,
    int: _whole,
    bool: _boolean,
    OffsetPolicy: _policy,
    str | None: _text_or_none,
    Secret | None: Secret,
}


def _reader(kind: Any) -> Callable[[str], Any]:
    """Return the converter for an option of this type. Text stays as it is."""
    if get_origin(kind) is tuple:
        return _strategies
    return _READERS.get(kind, str)
