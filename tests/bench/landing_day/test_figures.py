"""Figures of the landing-day benchmark."""

from __future__ import annotations

import pytest

from bench.common.spread import Spread
from bench.landing_day.figures import (
    AFTER,
    COMMITTED,
    ROWS,
    SECONDS,
    Change,
    Lag,
    Observation,
    Production,
    Sent,
    file_table,
    lag_table,
    lags,
)

STEADY = Production([Sent(100.0, 0), Sent(110.0, 100), Sent(120.0, 200)], partitions=2)
"""Ten messages a second, five of them in each partition."""


def test_production_has_counts_and_offsets_by_time() -> None:
    assert [STEADY.messages(at) for at in (90, 100, 105, 120, 130)] == [0, 0, 50, 200, 200]
    assert [STEADY.offset(partition, 105.15) for partition in (0, 1)] == [26, 25]


@pytest.mark.parametrize(
    ("partition", "offset", "at"), [(0, 0, 100.0), (1, 0, 100.1), (0, 50, 110.0), (1, 99, 119.9), (0, 100, 120.0)]
)
def test_production_has_the_time_of_each_record(partition: int, offset: int, at: float) -> None:
    assert STEADY.time(partition, offset) == pytest.approx(at)


def test_stalled_producer_has_its_actual_times() -> None:
    held_up = Production([Sent(0.0, 0), Sent(1.0, 10), Sent(5.0, 10), Sent(6.0, 20)], partitions=1)

    assert held_up.messages(4.0) == 10
    assert held_up.time(0, 9) == pytest.approx(0.9)
    assert held_up.time(0, 10) == pytest.approx(5.0)


def test_production_without_reports_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        Production([], 1)


def test_lag_sums_records_and_has_the_longest_delay() -> None:
    [lag] = lags([Observation(110.0, landed=(40, 10), committed=(20, 10))], STEADY)

    assert lag.rows == 10 + 40
    assert lag.committed == 30 + 40
    assert lag.seconds == pytest.approx(7.9)


def test_lag_is_zero_once_everything_has_landed() -> None:
    assert lags([Observation(110.0, (50, 50), (50, 50)), Observation(130.0, (100, 100), (100, 100))], STEADY) == [
        Lag(110.0, 0.0, 0, 0),
        Lag(130.0, 0.0, 0, 0),
    ]


def lag(at: float, seconds: float) -> Lag:
    return Lag(at, seconds, int(10 * seconds), int(20 * seconds))


def test_lags_are_grouped_by_the_change_before_them() -> None:
    found = [lag(0, 1), lag(100, 2), lag(110, 9), lag(120, 5), lag(120 + AFTER, 3)]
    shown = lag_table("day", found, [Change(100, "joins"), Change(120, "is killed")], ["proved"], 1.5)

    assert {row.name: row.figures[SECONDS] for row in shown.rows} == {
        "the whole time": Spread(3, 1, 9),
        "without changes": Spread(2, 1, 3),
        "after joins": Spread(5.5, 2, 9),
        "after is killed": Spread(5, 5, 5),
    }
    assert shown.rows[0].figures[ROWS] == Spread(30, 10, 90)
    assert shown.rows[0].figures[COMMITTED] == Spread(60, 20, 180)


def test_series_starts_at_the_first_observation() -> None:
    [line] = lag_table("day", [lag(100, 1), lag(101, 2)], [Change(100.5, "joins")], [], 0.0).series

    assert (line.times, line.values, line.marks) == ([0, 1], [1, 2], [(0.5, "joins")])


def test_change_without_later_observation_has_no_row() -> None:
    shown = lag_table("day", [lag(0, 1)], [Change(5, "joins")], [], 0.0)

    assert [row.name for row in shown.rows] == ["the whole time", "without changes"]


def test_file_table_has_the_percentiles_of_sizes() -> None:
    shown = file_table("files", [1_000_000 * size for size in range(101)], rows=202, load=0.0)
    [row] = shown.rows

    figures = {column.title: column.show(row.figures[column.key].median) for column in shown.columns}
    assert figures == {
        "files": "101",
        "least, MB": "0.00",
        "5 %": "5.00",
        "25 %": "25.00",
        "median": "50.00",
        "75 %": "75.00",
        "95 %": "95.00",
        "most": "100.00",
    }
    assert shown.notes == ["2 rows and 50.00 MB a file on average"]
