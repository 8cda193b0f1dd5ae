"""Handlers' options as an app file gives them: what is unknown is named, with the nearest that is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sarameya import ConfigError, unknown_option


def check_known(options: Mapping[str, Any], known: Iterable[str], prefix: str = "") -> None:
    """Raise ConfigError for an option that is not `known`; it is named with `prefix` before it."""
    allowed = set(known)
    for key, value in options.items():
        if key not in allowed:
            raise ConfigError(prefix + key, value, unknown_option(key, allowed))
