"""Delta's errors, recognized by their conditions, whether py4j, pyspark or Spark Connect raised them."""

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
    """Return Spark's name of the error condition ("DELTA_METADATA_MISMATCH"); empty if it has none."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  a Java error requests its text from the JVM, which may be dead
        return ""
    match = _CONDITION.search(text)
    return match[1] if match else ""


def is_missing(error: BaseException) -> bool:
    """Return whether the table, or a file of it, does not exist (yet)."""
    return condition_of(error) in _MISSING


def is_overtaken(error: BaseException) -> bool:
    """Return whether another commit came first. Only the table's log shows whose, and whether ours succeeded, too."""
    return _OVERTAKEN.fullmatch(condition_of(error)) is not None
