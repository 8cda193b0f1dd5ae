"""Spark settings under which rows would silently be lost or changed, and the values that sinks need instead.

In a sink's own sessions, a value that is not allowed is replaced by the first allowed value. The sink's options may not
set such a value: the error has the remedy. Options of the staged files' reader are in `tables/staged_records.py`. No
Spark here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from sarameya import ConfigError


@attrs.frozen(slots=True)
class _Rule:
    allowed: tuple[str, ...]
    remedy: str


_CALENDAR = _Rule(("CORRECTED", "EXCEPTION"), "convert old dates in the transform")
_RULES: Mapping[str, _Rule] = {
    "spark.sql.ansi.enabled": _Rule(
        ("true",), "use try_cast, try_add and the like in the transform, to get null for values that do not fit"
    ),
    "spark.sql.storeAssignmentPolicy": _Rule(("ANSI", "STRICT"), "cast in the transform"),
    "spark.sql.files.ignoreCorruptFiles": _Rule(("false",), "set it in the session that reads other files"),
    "spark.sql.files.ignoreMissingFiles": _Rule(("false",), "set it in the session that reads other files"),
    "spark.sql.timestampType": _Rule(("TIMESTAMP_LTZ",), "use the type timestamp_ntz explicitly"),
    "spark.sql.mapKeyDedupPolicy": _Rule(("EXCEPTION",), "make the keys of a map unique in the transform"),
    "spark.sql.legacy.timeParserPolicy": _Rule(("CORRECTED", "EXCEPTION"), "use patterns of Spark 3 and later"),
    "spark.sql.parquet.binaryAsString": _Rule(("false",), "cast in the transform"),
    "spark.sql.parquet.outputTimestampType": _Rule(
        ("TIMESTAMP_MICROS", "INT96"), "round timestamps in the transform (date_trunc)"
    ),
    "spark.sql.parquet.datetimeRebaseModeInRead": _CALENDAR,
    "spark.sql.parquet.datetimeRebaseModeInWrite": _CALENDAR,
    "spark.sql.parquet.int96RebaseModeInRead": _CALENDAR,
    "spark.sql.parquet.int96RebaseModeInWrite": _CALENDAR,
    "spark.sql.avro.datetimeRebaseModeInRead": _CALENDAR,
}


def check_conf(key: str, value: Any) -> None:
    """Refuse a setting under which rows would be lost or changed.

    Raises:
        ConfigError: `key` is such a setting, and `value` is not allowed. The text has the remedy.
    """
    rule = _RULES.get(key)
    if rule is not None and not _is_allowed(rule, value):
        allowed = " or ".join(map(repr, rule.allowed))
        raise ConfigError(f"conf.{key}", value, f"must be {allowed}, or rows could be lost or changed: {rule.remedy}")


def corrections(found: Mapping[str, str]) -> dict[str, str]:
    """Return the settings to change in a session whose settings are `found`.

    Includes settings that were never set, since defaults differ between Spark versions.
    """
    return {
        key: rule.allowed[0] for key, rule in _RULES.items() if key not in found or not _is_allowed(rule, found[key])
    }


def make_safe(session: Any) -> None:
    """Set the needed values in one of the sink's own sessions."""
    for key, value in corrections(session.conf.getAll).items():
        session.conf.set(key, value)


def _is_allowed(rule: _Rule, value: Any) -> bool:
    return str(value).upper() in map(str.upper, rule.allowed)
