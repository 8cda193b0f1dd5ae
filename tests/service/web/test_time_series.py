"""Rates and points, with fake members."""

from __future__ import annotations

import pytest

from sarameya.meters import Meters
from sarameya.service.monitor.members import WorkerStatus
from sarameya.service.web.time_series import MINUTES, TimeSeries
from tests.service.monitor.kit import ORDERS_0, ORDERS_1, partition, worker_status


def at(total: int, *, worker: int = 1, rows: int = 0) -> WorkerStatus:
    meters = Meters()
    for _ in range(rows):
        meters.topic("orders").landing_rows.observe(100)
    return worker_status(partition(records_total=total, lag=7), worker=worker, meters=meters)


def test_rate_is_over_the_last_ten_seconds() -> None:
    series = TimeSeries()
    for second in range(30):
        series.update([at(100 * second if second < 20 else 2000)], second, 1e9 + second)
    assert series.points[19].records == pytest.approx(100)
    assert series.points[25].records == pytest.approx(40, abs=10)
    assert series.records_per_second(1, ORDERS_0) == series.points[-1].records == pytest.approx(0, abs=11)
    series.update([at(2000)], 40, 1e9 + 40)
    assert series.records_per_second(1, ORDERS_0) == 0


def test_counter_that_falls_was_restarted() -> None:
    series = TimeSeries()
    for second, total in enumerate([1000, 1100, 0, 50]):
        series.update([at(total)], second, second)
    assert series.records_per_second(1, ORDERS_0) == 50
    assert [point.records for point in series.points] == [0, 100, 0, 50]


def test_points_sum_all_members_and_known_lags() -> None:
    series = TimeSeries()
    unknown = worker_status(partition(of=ORDERS_1, lag=-1), worker=3)
    for second in range(2):
        members = [at(10 * second), at(20 * second, worker=2, rows=3 * second), unknown, WorkerStatus(worker=4)]
        series.update(members, second, 100.0 + second)
    last = series.points[-1]
    assert (last.at, last.lag, last.records, last.landed) == (101.0, 14, 30, 300)


def test_unknown_lag_is_minus_one() -> None:
    series = TimeSeries()
    series.update([worker_status(partition(lag=-1), partition(of=ORDERS_1, lag=-1))], 0, 0)
    series.update([worker_status(partition(lag=0), partition(of=ORDERS_1, lag=-1))], 1, 1)
    series.update([worker_status()], 2, 2)
    assert series.columns["lag"] == [-1, 0, -1]


def test_removed_partition_has_no_rate_and_points_are_bounded() -> None:
    series = TimeSeries()
    for second in range(MINUTES * 60 + 5):
        series.update([at(second)], second, second)
    assert len(series.points) == MINUTES * 60
    series.update([worker_status()], 2000, 2000)
    assert series.records_per_second(1, ORDERS_0) == 0
