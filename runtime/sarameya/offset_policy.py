"""Offset policies: rules for a place in a log (an end, a time, a duration), or `fail`. Pure.

This module defines the values of a policy, and their text: `oldest`, `newest`, `fail`, `timestamp:2026-01-31T12:00:00Z`
and, as in KIP-1106, `by_duration:PT1H`. The consumer looks up the offset (`consumer/offset_lookup.py`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias

OffsetPolicy: TypeAlias = Literal["oldest", "newest", "fail"] | datetime | timedelta
"""A place in a log: an end, a time, or a duration before now. `fail` means that an error is raised instead.

A time (an aware datetime) or a duration (a timedelta) means the first message at or after that time, or the log's end
if every message is older.
"""

ALLOWED = (
    "'oldest', 'newest', 'fail', 'timestamp:2026-01-31T12:00:00Z' (a time; in Python also a datetime) or "
    "'by_duration:PT1H' (one hour ago; in Python also a timedelta)"
)
"""Allowed policies, for error messages."""

_KAFKAS = {"earliest": "oldest", "latest": "newest", "none": "fail"}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_DURATION = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)


def parse_policy(value: Any) -> OffsetPolicy:
    """Return the policy in `value`, which is a policy or its text.

    Raises:
        ValueError: `value` is no policy. The message lists the allowed policies.
    """
    match value:
        case "oldest":
            return "oldest"
        case "newest":
            return "newest"
        case "fail":
            return "fail"
        case str() if value in _KAFKAS:
            raise ValueError(f"is called {_KAFKAS[value]!r} here; must be {ALLOWED}")
        case str():
            kind, _, text = value.partition(":")
            if kind == "timestamp":
                return _checked_moment(parse_moment(text))
            if kind == "by_duration":
                return parse_duration(text)
        case datetime():
            return _checked_moment(value)
        case timedelta() if value >= timedelta(0):
            return value
    raise ValueError(f"must be {ALLOWED}")


def _checked_moment(when: datetime) -> datetime:
    if when.tzinfo is None:
        raise ValueError("must have a time zone, for example 2026-01-31T12:00:00Z")
    if when < _EPOCH:
        raise ValueError("must not be before 1970")
    return when


def parse_moment(text: str) -> datetime:
    """Parse a date and time of ISO 8601. The result is naive if the text has no zone.

    Raises:
        ValueError: The text is not in this format.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be a date and time of ISO 8601, for example 2026-01-31T12:00:00+01:00") from None


def parse_duration(text: str) -> timedelta:
    """Parse a duration of ISO 8601, in weeks, days, hours, minutes and seconds.

    Raises:
        ValueError: The text is not in this format, or the duration is too long.
    """
    match = _DURATION.fullmatch(text)
    parts = {unit: float(number) for unit, number in match.groupdict().items() if number} if match else {}
    try:
        if parts:
            return timedelta(**parts)
    except OverflowError:
        pass
    raise ValueError(
        "must be a duration of ISO 8601 in weeks, days, hours, minutes and seconds, for example PT1H or P1DT12H"
    )


def describe_policy(policy: OffsetPolicy) -> str:
    """Return the policy's text, the inverse of `parse_policy`."""
    match policy:
        case datetime():
            return f"timestamp:{policy.isoformat().replace('+00:00', 'Z')}"
        case timedelta():
            return f"by_duration:{_duration_text(policy)}"
        case _:
            return policy


def _duration_text(duration: timedelta) -> str:
    minutes, seconds = divmod(duration.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{duration.microseconds:06}".rstrip("0") if duration.microseconds else ""
    days = f"{duration.days}D" if duration.days else ""
    time = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M")) if number)
    if seconds or fraction:
        time += f"{seconds}{fraction}S"
    return f"P{days}T{time}" if time else f"P{days}" if days else "PT0S"


def milliseconds(when: datetime) -> int:
    """Return milliseconds since 1970, Kafka's unit of time."""
    return (when - _EPOCH) // _MILLISECOND


def timestamp_of(policy: datetime | timedelta, now: float) -> int:
    """Return the policy's time in milliseconds since 1970.

    If a duration reaches back to a time before 1970, the result is 0: no message is older.

    Args:
        policy: A time, or a duration before `now`.
        now: Seconds since 1970.
    """
    if isinstance(policy, datetime):
        return milliseconds(policy)
    return max(int(now * 1000) - policy // _MILLISECOND, 0)
