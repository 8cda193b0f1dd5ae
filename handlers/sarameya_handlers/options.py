"""Checks the handler options of an app file. An error suggests the known option that is nearest to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sarameya import ConfigError, unknown_option


def check_known(options: Mapping[str, Any], known: Iterable[str], prefix: str = "") -> None:
    """Check that all options are known.

    Args:
        options: Options of an app file.
        known: Names of the known ones.
        prefix: Prepended to the name of the option in the error.

    Raises:
        ConfigError: An option is unknown.
    """
    allowed = set(known)
    for key, value in options.items():
        if key not in allowed:
            raise ConfigError(prefix + key, value, unknown_option(key, allowed))
