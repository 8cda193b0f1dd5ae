"""Throughput that the neighbours of a slow partition lose."""

from __future__ import annotations

import pytest

from bench.common.results import Result
from bench.members.protocol import Line
from bench.slow_partition.figures import Reading, figures, has_read, reading, table


def progress(*reports: tuple[float, int, int]) -> list[Line]:
    return [
        Line("loaded", 0.0),
        *(Line("progress", at, others=others, slow=slow) for at, others, slow in reports),
    ]


def test_rate_counts_from_the_first_to_the_last_message() -> None:
    lines = progress((9.0, 0, 0), (10.0, 100, 2), (11.0, 500, 22), (12.0, 900, 42), (12.5, 5_000, 52))

    assert reading(lines, 9_000, 2.0) == Reading(400.0, 20.0)


def test_time_after_the_last_message_does_not_count() -> None:
    lines = progress((10.0, 100, 0), (11.0, 700, 0), (11.5, 1_000, 0), (12.0, 1_000, 0))

    assert reading(lines, 1_000, 3.0) == Reading(600.0, 0.0)


def test_stall_counts_to_the_end_of_the_measurement() -> None:
    lines = progress((10.0, 100, 0), (10.5, 200, 10), (12.0, 200, 40))

    assert reading(lines, 1_000, 2.0) == Reading(50.0, 20.0)


def test_message_of_the_slow_partition_may_start_the_time() -> None:
    lines = progress((10.0, 0, 1), (12.0, 0, 41))

    assert reading(lines, 1_000, 2.0) == Reading(0.0, 20.0)


def test_run_reported_in_one_line_counts_to_the_next_line() -> None:
    assert reading(progress((10.0, 900, 0), (10.5, 1_000, 0)), 1_000, 2.0) == Reading(200.0, 0.0)


@pytest.mark.parametrize("lines", [progress(), progress((9.0, 0, 0)), progress((9.0, 10, 0))])
def test_run_without_two_lines_with_messages_raises(lines: list[Line]) -> None:
    with pytest.raises(ValueError):
        reading(lines, 1_000, 2.0)


@pytest.mark.parametrize(
    ("lines", "enough"),
    [
        (progress(), False),
        (progress((10.0, 0, 0)), False),
        (progress((10.0, 1, 0), (11.9, 2, 0)), False),
        (progress((10.0, 1, 0), (12.0, 2, 0)), True),
        (progress((10.0, 1, 0), (10.1, 1_000, 0)), True),
    ],
)
def test_run_is_complete_after_its_time_or_with_all_messages(lines: list[Line], enough: bool) -> None:
    assert has_read(lines, 1_000, 2.0) is enough


@pytest.mark.parametrize(
    ("with_slow", "lost", "reached"), [(96.0, 0.04, True), (94.0, 0.06, False), (110.0, -0.1, True)]
)
def test_goal_is_to_lose_less_than_5_percent(with_slow: float, lost: float, reached: bool) -> None:
    ours = Result("sarameya", True, runs=[figures(Reading(100.0, 0.0), Reading(with_slow, 20.0))])
    [check] = table([ours], 0.0).checks

    assert check.number == pytest.approx(lost)
    assert check.reached is reached
