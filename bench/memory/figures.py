"""What a member's resident memory did over time. Pure. Sizes are bytes, times seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import linear_regression

import attrs

from bench.common.processes import Usage
from bench.common.results import Figures, Result
from bench.common.tables import Column, Goal, Row, Table, checks, ratios

OVER = "over_base_bytes"
GROWN = "grown"
COLUMNS = (
    Column("loaded_bytes", "loaded, MB", scale=1e-6, digits=1),
    Column("base_bytes", "base, MB", scale=1e-6, digits=1),
    Column("peak_bytes", "peak, MB", scale=1e-6, digits=1),
    Column(OVER, "over base, MB", scale=1e-6, digits=1),
    Column("slope_bytes_a_second", "slope, kB/s", scale=1e-3),
    Column(GROWN, "grown, %", scale=100, digits=1),
    Column("handled_a_second", "handled, messages/s", digits=1),
)
_FLAT = Goal(0.02, at_most=True)
_RECEIVED = 1 / 8
"""Of the budget: the answer that is being received, one a broker, has a buffer of its own until it is taken apart."""
_AT_WORK = 5_000_000
"""What a member at work takes beside what it has fetched, also with a single partition: decoded messages, requests."""


@attrs.frozen
class Base:
    """A member with nothing to read."""

    loaded_bytes: int
    assigned_bytes: int


def figures(base: Base, looks: Sequence[Usage], handled: int) -> Figures:
    """Of a run that was looked at again and again. Raises ValueError for fewer than four looks."""
    if len(looks) < 4:
        raise ValueError(f"{len(looks)} looks do not show a slope")
    peak = max(look.rss_bytes for look in looks)
    half = looks[len(looks) // 2 :]
    slope = linear_regression([look.at for look in half], [look.rss_bytes for look in half]).slope
    return {
        "loaded_bytes": base.loaded_bytes,
        "base_bytes": base.assigned_bytes,
        "peak_bytes": peak,
        OVER: peak - base.assigned_bytes,
        "slope_bytes_a_second": slope,
        GROWN: slope * (half[-1].at - half[0].at) / peak,
        "handled_a_second": handled / (looks[-1].at - looks[0].at),
    }


def bound(budget: int) -> float:
    """What a member with such a budget may take beyond its base, reading from one broker."""
    return budget * (1 + _RECEIVED) + _AT_WORK


def table(title: str, results: Sequence[Result], budgets: Mapping[str, int], load: float) -> Table:
    """`budgets`, in bytes, are of those that have one. One broker."""
    goals = {(name, OVER): Goal(bound(budget), at_most=True) for name, budget in budgets.items()}
    flat = {(name, GROWN): _FLAT for name in budgets}
    return Table(
        title=title,
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=ratios(results, "peak_bytes"),
        ratio_means="ours takes more",
        checks=checks(results, goals | flat),
        load=load,
    )
