"""Formats figures, ratios and goals as cells of text, for terminals and pages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from bench.common.spread import Spread
from bench.common.tables import Check, Column, Goal, Ratio, Row, Table


@attrs.frozen
class Grid:
    """A table of text."""

    header: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str] | str]]
    """Name of each row, and its cells. A failed row has the reason, as one text, instead of cells."""


def figures_grid(table: Table) -> Grid:
    return Grid(
        [table.title, *(column.title for column in table.columns)],
        [(row.name, _cells(row, table.columns)) for row in table.rows],
    )


def ratios_grid(table: Table) -> Grid:
    """Return the ratios ours / theirs, with a column for each key that has ratios."""
    keys = list(dict.fromkeys(ratio.key for ratio in table.ratios))
    pairs = list(dict.fromkeys((ratio.ours, ratio.theirs) for ratio in table.ratios))
    by_place = {(ratio.ours, ratio.theirs, ratio.key): ratio for ratio in table.ratios}
    return Grid(
        [f"ours / theirs (above 1: {table.ratio_means})", *(table.column(key).title for key in keys)],
        [(f"{ours} / {theirs}", [_ratio(by_place.get((ours, theirs, key))) for key in keys]) for ours, theirs in pairs],
    )


def check_text(check: Check, table: Table) -> str:
    column = table.column(check.key)
    return (
        f"{check.row}: {column.title} {column.show(check.number)}, goal {_goal(check.goal, check.reached, column.show)}"
    )


def spread_text(spread: Spread, column: Column) -> str:
    """Return the median, with the least and the most if these differ."""
    return column.show(spread.median) if spread.least == spread.most else spread.text(column.show)


def _cells(row: Row, columns: Iterable[Column]) -> Sequence[str] | str:
    if not row.figures:
        return f"FAILED in {len(row.failures)} of {row.runs}: {'; '.join(dict.fromkeys(row.failures))}"
    return [spread_text(row.figures[column.key], column) for column in columns]


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    spread = ratio.spread
    text = _three_digits(spread.median) if spread.least == spread.most else spread.text(_three_digits)
    return text if ratio.goal is None else f"{text}, {_goal(ratio.goal, ratio.reached, '{:g}'.format)}"


def _three_digits(number: float) -> str:
    """Return the number with three digits. With fewer, a goal that is just missed would look reached."""
    return f"{number:#.3g}".removesuffix(".")


def _goal(goal: Goal, reached: bool | None, show: Callable[[float], str]) -> str:
    return f"{'≤' if goal.at_most else '≥'} {show(goal.bound)} {'reached' if reached else 'missed'}"
