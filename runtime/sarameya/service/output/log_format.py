"""The service's log: standard logging to stderr, as text for people or as JSON for programs.

Each line of JSON has `time`, `level`, `logger` and `message`. Some lines have more fields:

- `worker`, if a supervisor runs this process
- `event`, the name of an event's class, and the event's own fields
- the fields of `extra={"fields": {...}}`
- `traceback`

A line of text has the time, the level, the worker and the message. The message of an event contains the event's fields
as key=value. Text that looks secret is masked in both formats, since an error's text may come from any library.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO, get_args

from sarameya.model import Generation, TopicPartition
from sarameya.secret import masked_text
from sarameya.service.app.app_file import LogFormat

LEVELS = ("debug", "info", "warning", "error")

RESERVED = frozenset({"time", "level", "logger", "message", "worker", "event", "traceback"})
"""Fields that every line may have. No event has fields of these names."""


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON."""

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
    """Return a value in JSON types. A value of another type becomes text."""
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
    """Formats a log record as text."""

    def format(self, record: logging.LogRecord) -> str:
        return masked_text(super().format(record))


class _Handler(logging.StreamHandler[TextIO]):
    """The log handler that `configure_logging` sets up."""


def configure_logging(level: str, *, log_format: LogFormat = "text", worker: int | None = None) -> None:
    """Send the log to stderr.

    May be called again, once the app's format is known. If others have added log handlers to the root logger, no
    handler is added and the level stays: the program has set up its log itself.

    Args:
        level: The lowest level that is logged, one of LEVELS.
        log_format: The format. `auto` means text on a terminal and JSON elsewhere.
        worker: The number of this process among a supervisor's workers.
    """
    root = logging.getLogger()
    for former in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(former)
    formatter: logging.Formatter
    if log_format == "json" or (log_format == "auto" and not sys.stderr.isatty()):
        formatter = JsonFormatter(worker)
        logging.captureWarnings(True)  # else warnings would appear between the lines of JSON
    else:
        who = f" worker={worker}" if worker else ""
        formatter = TextFormatter(
            f"%(asctime)s.%(msecs)03d %(levelname)-7s{who} %(message)s", datefmt="%Y-%m-%d %H:%M:%S"
        )
    handler = _Handler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler])


def logs_json() -> bool:
    """Return whether this process's log is JSON."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def add_logging_arguments(parser: argparse.ArgumentParser, default: Any = None) -> None:
    """Add `--debug` and `--log-level`.

    Args:
        parser: The parser.
        default: `argparse.SUPPRESS` in a subparser, whose outer parser has the arguments, too.
    """
    parser.add_argument(
        "--debug", action="store_true", default=default or False, help="print tracebacks, and log at level debug"
    )
    parser.add_argument(
        "--log-level", choices=LEVELS, default=default or "info", help="the lowest level that is logged"
    )


def add_log_format_argument(parser: argparse.ArgumentParser, default: LogFormat | None = None) -> None:
    """Add `--log-format`, for commands that run until they are stopped. Other commands log text for people."""
    parser.add_argument(
        "--log-format",
        choices=get_args(LogFormat),
        default=default,
        help="the format of the log: text, JSON, or (auto) text on a terminal and JSON elsewhere",
    )
