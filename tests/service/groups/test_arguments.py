from __future__ import annotations

import argparse
from datetime import timedelta

import pytest

from sarameya.service.groups.arguments import duration, moment, offset


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01", 1),
        ("1970-01-01T00:00:01.5Z", 1.5),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02", 86_400),
        ("2026-01-31T12:00:00.123Z", 1_769_860_800.123),
    ],
)
def test_time_is_iso_8601_and_utc_without_a_zone(text: str, seconds: float) -> None:
    assert moment(text) == round(seconds * 1000)


@pytest.mark.parametrize("text", ["1969-12-31T23:59:59.999Z", "1969-12-31"])
def test_time_before_1970_is_refused(text: str) -> None:
    """Negative timestamps have a meaning in requests: -1 is the end of the log, and -2 its start."""
    with pytest.raises(argparse.ArgumentTypeError, match="must be a time from 1970 on"):
        moment(text)


@pytest.mark.parametrize("text", ["", "yesterday", "31.1.2026", "2026-13-01"])
def test_invalid_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be a date and time of ISO 8601, for example"):
        moment(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT90S", timedelta(seconds=90)),
        ("PT0.5S", timedelta(seconds=0.5)),
        ("PT2H30M", timedelta(hours=2.5)),
        ("P1D", timedelta(days=1)),
        ("P2W", timedelta(weeks=2)),
        ("P1DT12H", timedelta(hours=36)),
    ],
)
def test_duration_is_iso_8601(text: str, expected: timedelta) -> None:
    assert duration(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1h", "P1M", "P1Y", "-PT1H", "PT1H2H", "P99999999999999D"])
def test_invalid_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be a duration of ISO 8601"):
        duration(text)


@pytest.mark.parametrize("text", ["-1", "x", "", "1.5", str(2**63)])
def test_invalid_offset_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be an offset: a whole number of at least 0"):
        offset(text)
