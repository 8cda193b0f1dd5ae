"""Parsed output line of Kafka's ConsumerPerformance."""

from __future__ import annotations

import pytest

from bench.consume.programs.java_reader import read_line

LINE = (
    "2026-11-21 18:00:00:250, 2026-11-21 18:00:02:000, 381.4697, 217.9827, 2000000, 1142857.1429, "
    "350, 1400, 272.4784, 1428571.4286"
)


def test_time_starts_at_the_first_assignment() -> None:
    outcome = read_line(LINE, cpu_seconds=3.0, peak_rss_bytes=1)

    assert (outcome.messages, outcome.seconds, outcome.seconds_from_start) == (2_000_000, 1.4, 1.75)


def test_bytes_are_exact_to_the_printed_digits() -> None:
    outcome = read_line(LINE, cpu_seconds=3.0, peak_rss_bytes=1)

    assert abs(outcome.bytes - 400_000_000) <= outcome.bytes_within < 200


@pytest.mark.parametrize("line", ["WARNING: Exiting before consuming", LINE + ", 1", LINE.replace("2000000", "many")])
def test_malformed_line_raises(line: str) -> None:
    with pytest.raises(ValueError):
        read_line(line, cpu_seconds=3.0, peak_rss_bytes=1)
