"""What a bench tells, as data: tables of figures with their spread, ratios, goals. Pure.

A `Document` is all of a run. It becomes lines for a terminal (`lines`), JSON for programs (`documents`), and the
tables of a page (`markdown`): each from this alone.
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
    """How the figures of one key are shown."""

    key: str
    title: str
    """With the unit in which they are shown."""
    scale: float = 1.0
    """What a figure is multiplied by to be in that unit."""
    digits: int = 0
    """Behind the point."""

    def show(self, number: float) -> str:
        return f"{number * self.scale:,.{self.digits}f}"


@attrs.frozen
class Row:
    """One contender's."""

    name: str
    is_ours: bool
    figures: Mapping[str, Spread]
    """Of each column's key; none where it has failed."""
    failures: Sequence[str] = ()
    runs: int = 1
    """Those that failed included."""
    version: str = ""

    @classmethod
    def of(cls, result: Result, columns: Iterable[Column]) -> Self:
        figures = {column.key: result.spread(column.key) for column in columns} if result.counts else {}
        runs = len(result.runs) + len(result.failures)
        return cls(result.name, result.is_ours, figures, tuple(result.failures), runs, result.version)


@attrs.frozen
class Goal:
    """What a figure or a ratio is to be: at least `bound`, or at most."""

    bound: float
    at_most: bool = False

    def is_reached(self, number: float) -> bool:
        return number <= self.bound if self.at_most else number >= self.bound


@attrs.frozen
class Ratio:
    """Of ours to another's figures of one key."""

    ours: str
    theirs: str
    key: str
    spread: Spread
    goal: Goal | None = None
    reached: bool | None = None


@attrs.frozen
class Check:
    """A figure of a row that has a goal of its own; the median counts."""

    row: str
    key: str
    number: float
    goal: Goal
    reached: bool


@attrs.frozen
class Series:
    """A figure over time, in seconds since the beginning."""

    title: str
    """With the unit of the values."""
    times: Sequence[float]
    values: Sequence[float]
    marks: Sequence[tuple[float, str]] = ()
    """What happened when."""


@attrs.frozen
class Table:
    """What was measured side by side."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    ratios: Sequence[Ratio] = ()
    ratio_means: str = ""
    """What a ratio says that is above 1."""
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
    """What was measured, in one line."""
    machine: Machine
    seconds: float
    """How long it took."""
    tables: Sequence[Table]

    @property
    def versions(self) -> dict[str, str]:
        """The version of each contender that has told it."""
        return {row.name: row.version for table in self.tables for row in table.rows if row.version}

    @property
    def has_failures(self) -> bool:
        return any(table.has_failures for table in self.tables)


Goals = Mapping[tuple[str, str], Goal]
"""By (ours, theirs) what a ratio is to be, or by (row, key) what a figure is to be."""


def ratios(results: Sequence[Result], key: str, goals: Goals | None = None) -> list[Ratio]:
    """Each of ours against each peer, and what else has a goal; none for who has failed, or has a figure of 0."""
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
    """Whether each row that has goals, and figures, has reached them."""
    good = {result.name: result for result in results if result.counts}
    found = [(row, key, good[row].spread(key).median, goal) for (row, key), goal in goals.items() if row in good]
    return [Check(row, key, number, goal, goal.is_reached(number)) for row, key, number, goal in found]
