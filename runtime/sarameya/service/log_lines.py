"""Where the service's log goes: standard logging, one line format, stderr."""

from __future__ import annotations

import logging

LEVELS = ("debug", "info", "warning", "error")


def configure_logging(level: str, *, name: str = "") -> None:
    """Send logging to stderr from `level` (one of LEVELS) up; `name` tells this process from its siblings."""
    who = f" [{name}]" if name else ""
    logging.basicConfig(
        level=level.upper(),
        format=f"%(asctime)s.%(msecs)03d %(levelname)-7s{who} %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )
