"""Rows, ratios, goals and checks of tables."""

from __future__ import annotations

import pytest

from bench.common.spread import Spread
from bench.common.tables import Goal, ratios
from tests.bench.common.kit import document, result, table

OURS = result("ours", 2_000.0, 4_000.0, is_ours=True)
THEIRS = result("theirs", 1_000.0, 1_000.0)


def test_each_of_ours_has_a_ratio_to_each_peer() -> None:
    other = result("other", 1.0, 1.0)
    also_ours = result("also ours", 1.0, 1.0, is_ours=True)

    assert [(ratio.ours, ratio.theirs) for ratio in ratios([OURS, also_ours, THEIRS, other], "rate")] == [
        ("ours", "theirs"),
        ("ours", "other"),
        ("also ours", "theirs"),
        ("also ours", "other"),
    ]


def test_two_of_ours_have_a_ratio_if_it_is_a_goal() -> None:
    also_ours = result("also ours", 1_000.0, 1_000.0, is_ours=True)
    [ratio] = ratios([OURS, also_ours], "rate", {("ours", "also ours"): Goal(1.2)})

    assert (ratio.spread, ratio.reached) == (Spread(3.0, 2.0, 4.0), True)


@pytest.mark.parametrize(
    ("goal", "reached"), [(Goal(3.0), True), (Goal(3.1), False), (Goal(3.0, True), True), (Goal(2.9, True), False)]
)
def test_goal_is_at_least_or_at_most_its_bound(goal: Goal, reached: bool) -> None:
    [ratio] = table(OURS, THEIRS, goal=goal).ratios

    assert ratio.reached is reached


def test_failed_contender_has_a_row_without_a_ratio() -> None:
    made = table(OURS, result("theirs", 1.0, 1.0, failures=("exited with 1",)))

    assert made.ratios == []
    assert [(row.name, row.figures, row.runs) for row in made.rows if not row.figures] == [("theirs", {}, 3)]
    assert made.has_failures


def test_peer_with_a_zero_figure_has_no_ratio() -> None:
    idle = result("theirs", 1.0)
    idle.add({"rate": 0.0, "seconds": 1.0})
    made = table(OURS, idle)

    assert made.ratios == []
    assert not made.has_failures


def test_check_uses_the_median() -> None:
    ours = result("ours", 1e6, 5e5, 1e6, is_ours=True)

    assert [(check.number, check.reached) for check in table(ours, bound=Goal(1.5, at_most=True)).checks] == [
        (1.0, True)
    ]


def test_failed_row_has_no_check() -> None:
    ours = result("ours", 1e6, failures=("exited with 1",), is_ours=True)

    assert table(ours, bound=Goal(1.5)).checks == []


def test_document_has_failures_if_one_row_has() -> None:
    good, bad = table(OURS), table(result("theirs", failures=("exited with 1",)))

    assert not document(good).has_failures
    assert document(good, bad).has_failures


def test_versions_omit_contenders_without_one() -> None:
    silent = result("silent", failures=("exited with 1",))
    silent.version = ""

    assert document(table(OURS, silent)).versions == {"ours": "1.2.3"}
