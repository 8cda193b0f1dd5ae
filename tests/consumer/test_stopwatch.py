"""Stopwatch: total time over several activities."""

from __future__ import annotations

from sarameya.consumer.stopwatch import Stopwatch


def test_stopwatch_sums_all_intervals_and_the_current_one() -> None:
    watch = Stopwatch()
    assert (watch.lasting(5.0), watch.seconds_until(5.0)) == (0.0, 0.0)
    watch.begin(10.0)
    assert (watch.lasting(13.0), watch.seconds_until(13.0)) == (3.0, 3.0)
    watch.end(14.0)
    assert (watch.lasting(20.0), watch.seconds_until(20.0)) == (0.0, 4.0)
    watch.begin(30.0)
    assert (watch.lasting(31.0), watch.seconds_until(31.0)) == (1.0, 5.0)


def test_end_without_begin_counts_nothing() -> None:
    watch = Stopwatch()
    watch.end(10.0)
    watch.begin(20.0)
    watch.end(21.0)
    watch.end(25.0)
    assert watch.seconds_until(30.0) == 1.0
