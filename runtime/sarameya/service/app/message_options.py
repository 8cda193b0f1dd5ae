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
from sarameya.option_kinds import from_table
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
    prefix = f"{name}."
    if isinstance(value, Mapping):
        given = dict(value)
        if "on" in given:
            given["on"] = _exceptions(f"{prefix}on", given["on"])
        if isinstance(registry := given.get("registry"), Mapping):
            given["registry"] = RegistryOptions.from_options(registry, f"{prefix}registry.")
        value = {**attrs.asdict(present, recurse=False), **given} if isinstance(present, kind) else given
    return from_table(kind, value, prefix)


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
