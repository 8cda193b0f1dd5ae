"""Faults of runs, figures, tables and goals of the consume benchmark."""

from __future__ import annotations

import attrs
import pytest

from bench.common.spread import Spread
from bench.consume.contenders import CONTENDERS
from bench.consume.figures import COLUMNS, CPU, GOALS, GOALS_ELSEWHERE, RATE, add, fault, figures, table
from tests.bench.consume.kit import COMBINATION, outcome, result


def test_run_that_read_everything_has_no_fault() -> None:
    assert fault(outcome(), COMBINATION) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"messages": 999}, "read 999 messages of 1000"),
        ({"messages": 1001}, "read 1001 messages of 1000"),
        ({"bytes": 211_999}, "read 211999 bytes of 212000"),
        ({"bytes": 211_895, "bytes_within": 104}, "read 211895 bytes of 212000"),
        ({"seconds": 0.0}, "took 0 s"),
    ],
)
def test_run_that_read_something_else_has_a_fault(changes: dict[str, float], reason: str) -> None:
    assert fault(outcome(**changes), COMBINATION) == reason


def test_inexact_bytes_may_differ_by_their_precision() -> None:
    assert fault(outcome(bytes=211_896, bytes_within=104), COMBINATION) is None


def test_result_with_one_faulty_run_does_not_count() -> None:
    sarama = result("sarama", 1.0)
    add(sarama, outcome(messages=1), COMBINATION)

    assert not sarama.counts
    assert sarama.failures == ["read 1 messages of 1000"]


def test_result_with_a_run_without_outcome_does_not_count() -> None:
    sarama = result("sarama")
    add(sarama, "exited with 1: no broker", COMBINATION)

    assert not sarama.counts
    assert sarama.failures == ["exited with 1: no broker"]


def test_cpu_time_is_per_message_while_reading() -> None:
    assert result("sarama", 0.5).numbers(CPU) == [0.0005]


def test_rate_is_messages_from_the_first_to_the_last() -> None:
    assert result("sarama", 0.5, 2.0).numbers(RATE) == [2_000.0, 500.0]


def test_every_column_has_its_figure() -> None:
    assert {column.key for column in COLUMNS} == set(figures(outcome()))


def test_table_has_a_row_for_each_contender_with_its_version() -> None:
    made = table(COMBINATION, 210_000, [result("sarameya-marked", 1.0), result("sarama", 2.0)], 1.5)

    assert [(row.name, row.is_ours, row.version) for row in made.rows] == [
        ("sarameya-marked", True, "1.2.3"),
        ("sarama", False, "1.2.3"),
    ]
    assert made.title == "200 B, none, random x 1000"
    assert made.notes == ["210 bytes a message in the log"]


def test_ratio_above_one_means_that_ours_is_faster() -> None:
    results = [result("sarameya-marked", 1.0, 2.0, 1.0), result("sarama", 2.0, 2.0, 4.0)]
    [ratio] = table(COMBINATION, 1, results, 0.0).ratios

    assert (ratio.ours, ratio.theirs, ratio.spread) == ("sarameya-marked", "sarama", Spread(2.0, 1.0, 4.0))


@pytest.mark.parametrize(("seconds", "reached"), [(1.34, False), (1.33, True)])
def test_goal_is_reached_at_its_ratio(seconds: float, reached: bool) -> None:
    [ratio] = table(COMBINATION, 1, [result("sarameya-marked", seconds), result("sarama", 1.0)], 0.0).ratios

    assert ratio.goal is not None
    assert (ratio.goal.bound, ratio.reached) == (0.75, reached)


def test_other_combinations_have_their_own_goal() -> None:
    compressed = attrs.evolve(COMBINATION, codec="lz4")
    [ratio] = table(compressed, 1, [result("sarameya-marked", 1.42), result("sarama", 1.0)], 0.0).ratios

    assert ratio.goal is not None
    assert (ratio.goal.bound, ratio.reached) == (0.7, True)


def test_goals_name_existing_contenders() -> None:
    assert {name for pair in (*GOALS, *GOALS_ELSEWHERE) for name in pair} <= {one.name for one in CONTENDERS}
