"""Options of a message handler in an app file: plain values, and tables for `Retry`, `RetryTopics` and the others."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, cast

import attrs

from sarameya.errors import ConfigError
from sarameya.formats.format import Format
from sarameya.handling.message_options import MessageOptions
from sarameya.handling.options import CircuitBreaker, DeadLetterTopic, Retry, RetryTopics
from sarameya.option_kinds import unknown_option
from sarameya.registry.options import RegistryOptions
from sarameya.service.app.imports import NotImportedError, import_name

_PLAIN = (
    *("ordering", "concurrency", "partition_concurrency", "processes", "max_handler_time"),
    *("batch_size", "batch_age"),  # of a BatchHandler
)
_TABLES: dict[str, Any] = {
    "retry": Retry,
    "retry_topics": RetryTopics,
    "dead_letters": DeadLetterTopic,
    "circuit_breaker": CircuitBreaker,
    "value_format": Format,
    "key_format": Format,
}
MESSAGE_OPTIONS = (*_PLAIN, *_TABLES)
"""Names of the options."""


def set_options(handler: MessageOptions, options: Mapping[str, Any]) -> None:
    """Set options of a handler, as an app file has them.

    Args:
        handler: The handler.
        options: Values of `MESSAGE_OPTIONS`.

    Raises:
        ConfigError: A value is invalid.
    """
    for name, value in options.items():
        kind = _TABLES.get(name)
        is_plain = kind is None or (kind is Format and isinstance(value, str))
        setattr(handler, name, value if is_plain else _table(name, kind, value, getattr(handler, name)))
    handler._check()


def shown(value: Any) -> Any:
    """Return an option of a handler as an app file has it."""
    if isinstance(value, type):
        return value.__qualname__ if value.__module__ == "builtins" else f"{value.__module__}:{value.__qualname__}"
    if isinstance(value, tuple):
        return [shown(inner) for inner in value]
    if isinstance(value, tuple(_TABLES.values())):
        fields = attrs.asdict(cast(attrs.AttrsInstance, value), recurse=False)
        return {name: shown(inner) for name, inner in fields.items()}
    return value


def _table(name: str, kind: Any, value: Any, present: Any) -> Any:
    """Return the object that a table describes. What it leaves out is as in the present value of the option, if any."""
    fields = {field.name: field for field in attrs.fields(kind)}
    if not isinstance(value, Mapping):
        raise ConfigError(name, value, f"must be a table of {', '.join(fields)}")
    given = dict(value)
    for key, inner in given.items():
        if key not in fields:
            raise ConfigError(f"{name}.{key}", inner, unknown_option(key, set(fields)))
        if key == "on":
            given[key] = _exceptions(f"{name}.on", inner)
        elif key == "registry" and isinstance(inner, Mapping):
            given[key] = RegistryOptions.from_options(inner, f"{name}.registry.")
    for key, field in fields.items():
        if isinstance(present, kind):
            given.setdefault(key, getattr(present, key))
        elif field.default is attrs.NOTHING and key not in given:
            raise ConfigError(f"{name}.{key}", None, "is required")
    try:
        return kind(**given)
    except ConfigError as error:
        raise ConfigError(f"{name}.{error.option}", error.value, error.allowed) from None


def _exceptions(option: str, value: Any) -> tuple[Any, ...]:
    """Return the classes with these names: `OSError`, `package.module:Class`.

    Raises:
        ConfigError: There is no such class.
    """
    found = []
    for name in value if isinstance(value, list) else [value]:
        try:
            kind = getattr(builtins, str(name), None) or import_name(str(name), "Class")
        except NotImportedError as problem:
            reason = f"must be the name of a class: 'OSError', or 'package.module:Class': {problem}"
            raise ConfigError(option, name, reason) from None
        found.append(kind)
    return tuple(found)
