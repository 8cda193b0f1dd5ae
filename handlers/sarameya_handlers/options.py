"""Handlers' options as an app file gives them: what is unknown is named, with the nearest that is known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from sarameya import ConfigError


def check_known(options: Mapping[str, Any], known: Iterable[str], prefix: str = "") -> None:
    """Raise ConfigError for an option that is not `known`; it is named with `prefix` before it."""
    allowed = sorted(known)
    for key, value in options.items():
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(prefix + key, value, f"no such option; {hint}allowed are {', '.join(allowed)}")
