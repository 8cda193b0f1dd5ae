"""Results of a bench as data: tables of figures with their spread, ratios, and goals. Pure.

A `Document` has everything about a run. `lines` renders it for a terminal, `documents` as JSON for programs, and
`markdown` for a page; none of them needs anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import attrs

from bench.common.machine import Machine
from bench.common.results import Result
from bench.common.spread import Spread, ratio


@attrs.frozen
class Column:
    """Format of the figures of one key.

    Attributes:
        key: Key of the figures.
        title: Title of the column, with its unit.
        scale: Factor that converts a figure to that unit.
        digits: Number of decimal places.
    """

    key: str
    title: str
    scale: float = 1.0
    digits: int = 0

    def show(self, number: float) -> str:
        """Format a figure."""
        return f"{number * self.scale:,.{self.digits}f}"


@attrs.frozen
class Row:
    """Row of one contender in a table."""

    name: str
    is_ours: bool
    figures: Mapping[str, Spread]
    """Figures by the columns' keys; empty if the contender has failed."""
    failures: Sequence[str] = ()
    runs: int = 1
    """Number of runs, failed ones included."""
    version: str = ""

    @classmethod
    def of(cls, result: Result, columns: Iterable[Column]) -> Self:
        """Return the row of a result."""
        figures = {column.key: result.spread(column.key) for column in columns} if result.counts else {}
        runs = len(result.runs) + len(result.failures)
        return cls(result.name, result.is_ours, figures, tuple(result.failures), runs, result.version)


@attrs.frozen
class Goal:
    """Goal of a figure or a ratio: at least `bound`, or at most, if `at_most` is set."""

    bound: float
    at_most: bool = False

    def is_reached(self, number: float) -> bool:
        return number <= self.bound if self.at_most else number >= self.bound


@attrs.frozen
class Ratio:
    """Ratio of our figure to another contender's, for one key."""

    ours: str
    theirs: str
    key: str
    spread: Spread
    goal: Goal | None = None
    reached: bool | None = None


@attrs.frozen
class Check:
    """A figure of a row with its own goal. The median must reach it."""

    row: str
    key: str
    number: float
    goal: Goal
    reached: bool


@attrs.frozen
class Series:
    """A figure over time. Times are seconds since the start."""

    title: str
    """Title, with the unit of the values."""
    times: Sequence[float]
    values: Sequence[float]
    marks: Sequence[tuple[float, str]] = ()
    """Events, each with its time."""


@attrs.frozen
class Table:
    """Figures that were measured side by side."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    ratios: Sequence[Ratio] = ()
    ratio_means: str = ""
    """Meaning of a ratio above 1."""
    checks: Sequence[Check] = ()
    notes: Sequence[str] = ()
    series: Sequence[Series] = ()
    load: float = 0.0
    """The machine's load average over the last minute, at the end."""

    @property
    def has_failures(self) -> bool:
        return any(not row.figures for row in self.rows)

    def column(self, key: str) -> Column:
        return next(column for column in self.columns if column.key == key)


@attrs.frozen
class Document:
    """A run of one bench."""

    bench: str
    about: str
    """Description of the measurement, in a line."""
    machine: Machine
    seconds: float
    """Duration of the run."""
    tables: Sequence[Table]

    @property
    def versions(self) -> dict[str, str]:
        """Version of each contender that reports one."""
        return {row.name: row.version for table in self.tables for row in table.rows if row.version}

    @property
    def has_failures(self) -> bool:
        return any(table.has_failures for table in self.tables)


Goals = Mapping[tuple[str, str], Goal]
"""Goals of ratios by (ours, theirs), or goals of figures by (row, key)."""


def ratios(results: Sequence[Result], key: str, goals: Goals | None = None) -> list[Ratio]:
    """Return the ratio of each of our results to each peer's, and of other pairs that have a goal.

    Failed results have no ratio. A result with a figure of 0 cannot be the denominator of one.
    """
    wanted = goals or {}
    good = [result for result in results if result.counts]
    return [
        _ratio(ours, theirs, key, wanted.get((ours.name, theirs.name)))
        for ours in good
        for theirs in good
        if ours.is_ours and (not theirs.is_ours or (ours.name, theirs.name) in wanted) and all(theirs.numbers(key))
    ]


def _ratio(ours: Result, theirs: Result, key: str, goal: Goal | None) -> Ratio:
    spread = ratio(ours.numbers(key), theirs.numbers(key))
    return Ratio(ours.name, theirs.name, key, spread, goal, None if goal is None else goal.is_reached(spread.median))


def checks(results: Iterable[Result], goals: Goals) -> list[Check]:
    """Return a check for each goal whose row has figures."""
    good = {result.name: result for result in results if result.counts}
    found = [(row, key, good[row].spread(key).median, goal) for (row, key), goal in goals.items() if row in good]
    return [Check(row, key, number, goal, goal.is_reached(number)) for row, key, number, goal in found]
