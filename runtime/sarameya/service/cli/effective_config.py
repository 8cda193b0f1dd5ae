"""The effective configuration of an app: every key with its value and origin, secrets masked. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import attrs

from sarameya.config import Config
from sarameya.offset_policy import describe_policy
from sarameya.secret import MASK, Secret, masked
from sarameya.service.app.app_file import App, Loaded
from sarameya.service.output.text import table


@attrs.frozen
class EffectiveSetting:
    """A key of an app file, its value in JSON types, and its origin: a file, a variable, or `default`."""

    key: str
    value: Any
    origin: str


def settings(loaded: Loaded, handler_defaults: Mapping[str, Any]) -> list[EffectiveSetting]:
    """Return all settings in the order of an app file.

    Args:
        loaded: The app.
        handler_defaults: Values for handler options that are not given.
    """
    return [
        EffectiveSetting(key, json_value(masked(key, value)), loaded.layers.origin(key))
        for key, value in _values(loaded.app, handler_defaults)
        if not (value is None and key in ("topics", "topics_pattern", "properties"))
    ]


def settings_text(rows: list[EffectiveSetting]) -> str:
    """Return a table for people. Values are written as in TOML."""
    return table(
        ("KEY", "VALUE", "ORIGIN"),
        [
            (row.key, None if row.value is None else json.dumps(row.value, ensure_ascii=False), row.origin)
            for row in rows
        ],
    )


def settings_document(loaded: Loaded, rows: list[EffectiveSetting]) -> dict[str, Any]:
    """Return the document for programs."""
    return {"app_file": str(loaded.layers.path), "settings": [attrs.asdict(row) for row in rows]}


def json_value(value: Any) -> Any:
    """Return a value in JSON types."""
    match value:
        case Secret():
            return MASK
        case Mapping():
            return {str(key): json_value(inner) for key, inner in value.items()}
        case list() | tuple():
            return [json_value(inner) for inner in value]
        case float() if not math.isfinite(value):
            return str(value)  # JSON has no such number
        case None | bool() | int() | float() | str():
            return value
        case datetime() if value.tzinfo is not None:
            return describe_policy(value)
        case timedelta():
            return describe_policy(value)
    return str(value)


def _values(app: App, handler_defaults: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "bootstrap_servers", app.bootstrap_servers
    yield "group", app.group
    yield "topics", app.topics or None
    yield "topics_pattern", app.topics_pattern
    yield "properties", app.properties
    for field in attrs.fields(Config):
        if field.name != "topics":
            yield f"config.{field.name}", getattr(app.config, field.name)
    for topic, own in app.config.topics.items():
        for option, value in attrs.asdict(own).items():
            if value is not None:
                yield f"config.topics.{topic}.{option}", value
    yield "handler.name", app.handler.name
    yield from _flat("handler.options", _merged(app.handler.options, handler_defaults))
    for key, value in attrs.asdict(app.service).items():
        yield f"service.{key}", value


def _merged(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given values, and the defaults of the values that are not given, also in nested tables."""
    merged = dict(given)
    for name, default in defaults.items():
        value = merged.setdefault(name, default)
        if isinstance(value, Mapping) and isinstance(default, Mapping):
            merged[name] = _merged(value, default)
    return merged


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of a table and of the tables in it."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}", inner)
    else:
        yield key, value
