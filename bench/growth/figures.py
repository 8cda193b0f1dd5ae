"""Figures of starts and of landing, for each length. Pure. Times are seconds."""

from __future__ import annotations

from collections.abc import Sequence

from bench.common.results import Result
from bench.common.tables import Column, Goal, Goals, Row, Table, ratios

FIRST_START = "first_start"
START = "start"
LANDING = "landing"
_START = Column(START, "start, ms", scale=1e3, digits=1)
_LANDING = Column(LANDING, "landing, ms", scale=1e3, digits=1)
COLUMNS = {
    "parquet": (_START, _LANDING),
    "delta": (Column(FIRST_START, "first start, ms", scale=1e3, digits=1), _START, _LANDING),
    "iceberg": (_START, _LANDING),
}
_FLAT = Goal(3.0, at_most=True)
"""Goal of a cost that must not grow: how many times as long the longest table may take, with 100 times the length."""


def table(kind: str, unit: str, results: Sequence[Result], load: float) -> Table:
    """Return the table of one format, which compares the longest length with the shortest.

    Args:
        kind: The format.
        unit: Title: the unit in which lengths are counted.
        results: A result for each length, shortest first.
        load: The machine's load average.
    """
    good = [result for result in results if result.counts]
    goals: Goals = {}
    if len(good) > 1 and kind == "parquet":
        goals = {(good[-1].name, good[0].name): _FLAT}
    columns = COLUMNS[kind]
    return Table(
        title=unit,
        columns=columns,
        rows=[Row.of(result, columns) for result in results],
        ratios=[ratio for column in columns for ratio in ratios(results, column.key, goals)] if goals else (),
        ratio_means="the longer one takes longer",
        load=load,
    )
