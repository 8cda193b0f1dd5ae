"""Where the service's log goes: standard logging, one line format, stderr."""

from __future__ import annotations

import argparse
import logging
from typing import Any

LEVELS = ("debug", "info", "warning", "error")


def configure_logging(level: str, *, name: str = "") -> None:
    """Send logging to stderr from `level` (one of LEVELS) up; `name` tells this process from its siblings."""
    who = f" [{name}]" if name else ""
    logging.basicConfig(
        level=level.upper(),
        format=f"%(asctime)s.%(msecs)03d %(levelname)-7s{who} %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )


def add_logging_arguments(parser: argparse.ArgumentParser, default: Any = None) -> None:
    """`--debug` and `--log-level`; in a parser within another that has them too, `default` is `argparse.SUPPRESS`."""
    parser.add_argument(
        "--debug", action="store_true", default=default or False, help="print tracebacks, and log at level debug"
    )
    parser.add_argument(
        "--log-level", choices=LEVELS, default=default or "info", help="what is logged, from this level up"
    )
