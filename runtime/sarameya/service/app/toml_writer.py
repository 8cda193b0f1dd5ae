"""The text of an app file for `sarameya run`, made from an app. Pure, except that it reads the working directory.

Secrets are not written. A value that is a secret, or looks like one, becomes a comment that names its origin. A
reference to a secret (`env:NAME`, `file:PATH`) is written, since it only names the place of the secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

import attrs

from sarameya.secret import Secret, masked
from sarameya.service.app.app_file import App, Loaded
from sarameya.service.app.layers import Layers

_ORDER = [field.name for field in attrs.fields(App) if field.name not in ("handler", "service")] + [
    "handler",
    "service",
]
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def as_app_file(loaded: Loaded) -> str:
    """Return the text of the app file. If there is a `.properties` file, the text names it and omits its values."""
    secrets: list[str] = []
    table = dict(_written(loaded.layers.table, "", loaded.layers, secrets))
    if loaded.layers.properties is not None:  # absolute, since the app file may be saved in any folder
        table["properties"] = str(loaded.layers.properties.absolute())
    table = {name: table[name] for name in _ORDER if name in table}
    return "".join(f"# {line}\n" for line in secrets) + toml(table)


def _written(table: Mapping[str, Any], prefix: str, layers: Layers, secrets: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the entries of the table that are written. Add a comment line to `secrets` for each secret."""
    for name, value in table.items():
        key = prefix + name
        if key in layers.beneath:  # the `.properties` file gives the value
            continue
        if isinstance(value, Mapping):
            if inner := dict(_written(value, f"{key}.", layers, secrets)):
                yield name, inner
        elif not _is_secret(key, value):
            yield name, value
        else:
            secrets.append(f"{key} is not written here: it is a secret from {layers.origin(key)}")


def _is_secret(key: str, value: Any) -> bool:
    if key.startswith("config.") and isinstance(value, str) and value.startswith(("env:", "file:")):
        return False  # a reference, which only names the place of the secret
    # `sasl_token` is the name of a function, which is not a secret.
    return key != "config.sasl_token" and (isinstance(value, Secret) or bool(masked(key, value) != value))


def toml(table: Mapping[str, Any]) -> str:
    """Return the table as TOML: first its values, then its inner tables."""
    return "\n".join(_sections(table, ())).lstrip("\n") + "\n"


def _sections(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    values = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    inner = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    if path and (values or not inner):
        yield f"\n[{'.'.join(map(_key, path))}]"
    for name, value in values.items():
        yield f"{_key(name)} = {_value(value)}"
    for name, value in inner.items():
        yield from _sections(value, (*path, name))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            return f"{{ {', '.join(f'{_key(name)} = {_value(inner)}' for name, inner in value.items())} }}"
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
    return _text(str(value))


def _text(text: str) -> str:
    """Return a TOML string. TOML and JSON write strings alike, except for the character 0x7F."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
