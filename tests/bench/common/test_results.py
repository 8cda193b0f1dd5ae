"""Results collected from runs."""

from __future__ import annotations

from bench.common.results import Result, best
from bench.common.spread import Spread
from tests.bench.common.kit import result


def test_result_without_failures_counts_and_has_spreads() -> None:
    made = result("theirs", 1_000.0, 3_000.0, 2_000.0)

    assert made.counts
    assert made.spread("rate") == Spread(2_000.0, 1_000.0, 3_000.0)


def test_result_with_one_failed_run_does_not_count() -> None:
    made = result("theirs", 1_000.0)
    made.add("exited with 1")

    assert not made.counts
    assert made.failures == ["exited with 1"]


def test_result_without_runs_does_not_count() -> None:
    assert not Result("theirs").counts


def test_best_has_the_highest_median_of_results_that_count() -> None:
    steady, lucky = result("steady", 500.0, 500.0, 500.0), result("lucky", 9_000.0, 100.0, 100.0)
    failed = result("failed", 9_000.0, failures=("exited with 1",))

    assert best([lucky, steady, failed], "rate") is steady


def test_best_is_none_if_no_result_counts() -> None:
    assert best([result("failed", 1.0, failures=("exited with 1",))], "rate") is None
