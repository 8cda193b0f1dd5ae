from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.offset_policy import describe_policy, milliseconds, parse_duration, parse_policy, timestamp_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("oldest", "oldest"),
        ("newest", "newest"),
        ("fail", "fail"),
        ("timestamp:2026-01-31T12:00:00Z", NOON),
        ("timestamp:2026-01-31T13:00:00+01:00", NOON),
        ("timestamp:2026-01-31T12:00:00.250Z", NOON + timedelta(milliseconds=250)),
        ("by_duration:PT1H", timedelta(hours=1)),
        ("by_duration:P1W2DT3H4M5.5S", timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5.5)),
        ("by_duration:PT0S", timedelta()),
    ],
)
def test_text_is_parsed_to_its_policy(text: str, policy: object) -> None:
    assert parse_policy(text) == policy


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("Oldest", "must be 'oldest', 'newest'"),
        ("latest", "is called 'newest' here"),
        ("none", "is called 'fail' here"),
        ("duration:PT1H", "must be 'oldest', 'newest'"),
        ("by_duration:", "must be a duration of ISO 8601"),
        ("by_duration:-PT1H", "must be a duration of ISO 8601"),
        ("by_duration:P1Y", "must be a duration of ISO 8601"),
        ("by_duration:PT١H", "must be a duration of ISO 8601"),
        ("by_duration:P99999999999D", "must be a duration of ISO 8601"),
        ("timestamp:yesterday", "must be a date and time of ISO 8601"),
        ("timestamp:2026-01-31T12:00:00", "must have a time zone"),
        ("timestamp:1969-12-31T23:59:59Z", "must not be before 1970"),
        (datetime(2026, 1, 31), "must have a time zone"),
        (timedelta(seconds=-1), "must be 'oldest', 'newest'"),
        (True, "must be 'oldest', 'newest'"),
        (0, "must be 'oldest', 'newest'"),
        (None, "must be 'oldest', 'newest'"),
    ],
)
def test_invalid_policy_is_refused_with_the_reason(value: Any, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_policy(value)
    assert str(caught.value).startswith(reason)


policies = st.one_of(
    st.sampled_from(["oldest", "newest", "fail"]),
    st.timedeltas(min_value=timedelta(0)),
    st.datetimes(min_value=datetime(1970, 1, 2), timezones=st.sampled_from([UTC, timezone(timedelta(hours=-3))])),
)


@given(policies)
def test_text_of_a_policy_is_parsed_to_the_same(policy: Any) -> None:
    assert parse_policy(describe_policy(policy)) == policy


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ("oldest", "oldest"),
        (NOON, "timestamp:2026-01-31T12:00:00Z"),
        (timedelta(days=1), "by_duration:P1D"),
        (timedelta(days=1, minutes=90, microseconds=500_000), "by_duration:P1DT1H30M0.5S"),
        (timedelta(), "by_duration:PT0S"),
    ],
)
def test_policy_is_described_in_iso_8601(policy: Any, text: str) -> None:
    assert describe_policy(policy) == text


def test_timestamp_is_of_the_time_or_of_now_minus_the_duration() -> None:
    now = NOON.timestamp()
    assert timestamp_of(NOON, now + 100) == milliseconds(NOON) == 1_769_860_800_000
    assert timestamp_of(timedelta(hours=1), now) == milliseconds(NOON - timedelta(hours=1))


def test_timestamp_before_1970_becomes_1970() -> None:
    assert timestamp_of(timedelta.max, NOON.timestamp()) == 0


@given(st.text(alphabet="P1DT2HMSW.-+ ", max_size=12))
def test_any_text_is_parsed_as_a_duration_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert parse_duration(text) >= timedelta(0)
