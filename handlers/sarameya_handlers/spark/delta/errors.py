"""What Delta's errors say, whether they come as py4j's, pyspark's own or Spark Connect's: told by their conditions."""

from __future__ import annotations

import re

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+)(?:\.[A-Z0-9_]+)?\]")

_MISSING = frozenset(
    {
        "DELTA_MISSING_DELTA_TABLE",
        "DELTA_TABLE_NOT_FOUND",
        "DELTA_PATH_DOES_NOT_EXIST",
        "DELTA_TABLE_ONLY_OPERATION",
        "PATH_NOT_FOUND",
        "SCHEMA_NOT_FOUND",
        "TABLE_OR_VIEW_NOT_FOUND",
    }
)
_OVERTAKEN = re.compile("DELTA_CONCURRENT_[A-Z_]+|DELTA_(METADATA|PROTOCOL)_CHANGED|TABLE_OR_VIEW_ALREADY_EXISTS")


def condition_of(error: BaseException) -> str:
    """Spark's name for what went wrong ("DELTA_METADATA_MISMATCH"), as far as it has one; else an empty string."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  an error of Java asks a JVM for its text, which may be gone
        return ""
    match = _CONDITION.search(text)
    return match[1] if match else ""


def is_missing(error: BaseException) -> bool:
    """Whether there is no such table (yet), or no such file."""
    return condition_of(error) in _MISSING


def is_overtaken(error: BaseException) -> bool:
    """Whether another commit came first: whose that was, and whether ours came too, is for the table to say."""
    return _OVERTAKEN.fullmatch(condition_of(error)) is not None
