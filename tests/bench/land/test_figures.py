"""Figures of landing runs."""

from __future__ import annotations

import attrs
import pytest

from bench.common.results import Result
from bench.land.contenders import CASES, CONTENDERS, OURS, SPARK
from bench.land.figures import COLUMNS, GOALS, covered, figures, table
from bench.land.programs.landing import Outcome, Source, Task


def result(name: str, *seconds: float, stages: dict[str, float] | None = None) -> Result:
    runs = [figures(Outcome(one, 1.0, stages or {}, 7), rows=400, files=3, peak_rss_bytes=1) for one in seconds]
    return Result(name, name == OURS, runs=runs)


def test_rate_counts_the_rows_of_the_table() -> None:
    found = figures(Outcome(seconds=2.0, cpu_seconds=3.5), rows=400, files=3, peak_rss_bytes=1_000_000)

    assert [found[column.key] for column in COLUMNS] == [200.0, 2.0, 3.5, 1_000_000, 3]


@pytest.mark.parametrize(("seconds", "reached"), [(1.0, True), (1.1, False)])
def test_goal_is_a_multiple_of_the_rate_of_sparks_source(seconds: float, reached: bool) -> None:
    [ratio] = table("local[2]", [result(OURS, seconds), result(SPARK, 1.25)], [], 0.0).ratios

    assert (ratio.ours, ratio.theirs, ratio.reached) == (OURS, SPARK, reached)


def test_failed_landing_has_no_ratio() -> None:
    failed = Result(SPARK, failures=["partition 0 has nothing"])
    shown = table("local[2]", [result(OURS, 1.0), failed], [], 0.0)

    assert shown.has_failures
    assert not shown.ratios


def test_table_has_a_note_on_the_seconds_of_each_stage() -> None:
    failed = Result(SPARK, failures=["partition 0 has nothing"])
    shown = table("local[2]", [result(OURS, 1.0, 3.0, 2.0, stages={"staging": 0.25}), failed], ["a"], 0.0)

    assert shown.notes == [f"{OURS}, 7 landings: staging 0.25 s", "a"]


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [([], 0.0), ([(1, 3)], 2.0), ([(5, 6), (1, 3), (2, 4)], 4.0), ([(1, 9), (2, 3), (4, 5)], 8.0)],
    ids=["none", "one", "overlapping", "nested"],
)
def test_overlapping_spans_count_once(spans: list[tuple[float, float]], seconds: float) -> None:
    assert covered(spans) == seconds


def test_names_and_titles_of_cases_are_unique() -> None:
    assert len({case.name for case in CASES}) == len({case.title for case in CASES}) == 6


def test_goals_name_existing_contenders() -> None:
    names = {contender.name for contender in CONTENDERS}

    assert {name for pair in GOALS for name in pair} <= names


def test_task_and_outcome_survive_a_json_round_trip() -> None:
    task = Task(
        "localhost:1",
        "g",
        Source("w", (1, 2)),
        Source("t", (3, 4)),
        "/d",
        "local[2]",
        "1g",
        "delta",
        True,
        "b-",
        ("a.jar",),
    )
    outcome = Outcome(1.5, 2.5, {"staging": 0.5}, 3)

    assert Task.of_json(task.to_json()) == task
    assert [task.place("table"), task.place("table", "s3a")] == ["s3://b-table/landed", "s3a://b-table/landed"]
    assert attrs.evolve(task, store="").place("table") == "/d/table"
    assert Outcome.of_json(outcome.to_json().encode()) == outcome


def test_table_has_a_note_on_store_requests_by_operation() -> None:
    result = Result("sarameya", True, "1")
    result.add(figures(Outcome(1.0, 1.0, {}, 1), 10, 1, 5, {"PutObject": 4, "GetObject": 2}))
    result.add(figures(Outcome(1.0, 1.0, {}, 1), 10, 1, 5, {"PutObject": 6, "HeadObject": 1}))
    assert "sarameya, 5 requests: PutObject 5" in table("t", [result], [], 0.0).notes, (
        "the median of two runs, of an operation in both"
    )
