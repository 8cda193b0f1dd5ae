"""Where the service's log goes: standard logging to stderr, as text for persons or as JSON for programs.

A line of JSON has `time`, `level`, `logger` and `message`; `worker` in a worker of a supervisor; for an event its
class's name as `event`, and its fields; what is logged with `extra={"fields": {...}}` has those fields; a traceback is
one field. Text is the message alone, which for an event has its fields as key=value already. In either what looks
secret is masked: an error's words may be anybody's.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, get_args

from sarameya.model import Generation, TopicPartition
from sarameya.secret import masked_text

LEVELS = ("debug", "info", "warning", "error")

LogFormat = Literal["auto", "text", "json"]

RESERVED = frozenset({"time", "level", "logger", "message", "worker", "event", "traceback"})
"""The fields that a line may have of its own, which no event has."""


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": masked_text(record.getMessage()),
        }
        if self._worker is not None:
            line["worker"] = self._worker
        if event := getattr(record, "event", None):
            line["event"] = str(event)
        fields: Mapping[Any, Any] = getattr(record, "fields", {})
        line.update((name, value) for name, value in _plain(fields).items() if name not in line)
        if record.exc_info:
            line["traceback"] = masked_text(self.formatException(record.exc_info))
        return json.dumps(line)


def _plain(value: Any) -> Any:
    """A value in JSON's types; what has no such is told as text."""
    match value:
        case TopicPartition():
            return str(value)
        case Generation():
            return value.id
        case Mapping():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case float() if math.isfinite(value):
            return value
        case None | bool() | int():
            return value
    return masked_text(str(value))


class TextFormatter(logging.Formatter):
    """A record as text."""

    def format(self, record: logging.LogRecord) -> str:
        return masked_text(super().format(record))


class _Handler(logging.StreamHandler[TextIO]):
    """What `configure_logging` has set up."""


def configure_logging(level: str, *, log_format: LogFormat = "text", worker: int | None = None) -> None:
    """Send logging to stderr from `level` (one of LEVELS) up; `auto` is text on a terminal and JSON elsewhere.

    `worker` is the number that tells this process from its siblings. May be called again, once an app has said what
    its format is; handlers that others have set up stay as they are.
    """
    root = logging.getLogger()
    for former in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(former)
    formatter: logging.Formatter
    if log_format == "json" or (log_format == "auto" and not sys.stderr.isatty()):
        formatter = JsonFormatter(worker)
        logging.captureWarnings(True)  # else they would stand between the lines
    else:
        who = f" worker={worker}" if worker else ""
        formatter = TextFormatter(
            f"%(asctime)s.%(msecs)03d %(levelname)-7s{who} %(message)s", datefmt="%Y-%m-%d %H:%M:%S"
        )
    handler = _Handler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler])


def logs_json() -> bool:
    """Whether this process's log is JSON."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def add_logging_arguments(parser: argparse.ArgumentParser, default: Any = None) -> None:
    """`--debug` and `--log-level`; in a parser within another that has them too, `default` is `argparse.SUPPRESS`."""
    parser.add_argument(
        "--debug", action="store_true", default=default or False, help="print tracebacks, and log at level debug"
    )
    parser.add_argument(
        "--log-level", choices=LEVELS, default=default or "info", help="what is logged, from this level up"
    )


def add_log_format_argument(parser: argparse.ArgumentParser, default: LogFormat | None = None) -> None:
    """`--log-format`, for commands that run until they are stopped; others tell persons what they do, as text."""
    parser.add_argument(
        "--log-format",
        choices=get_args(LogFormat),
        default=default,
        help="how it is logged: as text, as JSON, or (auto) as text on a terminal and as JSON elsewhere",
    )
