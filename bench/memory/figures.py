"""Figures of a member's resident memory over time. Pure. Sizes are bytes, times seconds."""

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
"""Goal for GROWN."""
_RECEIVED = 1 / 8
"""Part of the budget for the response being received: one per broker, in a buffer of its own until it is parsed."""
_AT_WORK = 5_000_000
"""Bytes of a working member beside fetched records, even with one partition: decoded messages, requests."""


@attrs.frozen
class Base:
    """Memory of a member with nothing to read: loaded, and with its partitions assigned."""

    loaded_bytes: int
    assigned_bytes: int


def figures(base: Base, samples: Sequence[Usage], handled: int) -> Figures:
    """Return the figures of a run.

    Args:
        base: The same member with nothing to read.
        samples: Measurements during the run, in order.
        handled: Number of messages handled.

    Raises:
        ValueError: There are fewer than four samples.
    """
    if len(samples) < 4:
        raise ValueError(f"{len(samples)} samples do not show a slope")
    peak = max(sample.rss_bytes for sample in samples)
    half = samples[len(samples) // 2 :]
    slope = linear_regression([sample.at for sample in half], [sample.rss_bytes for sample in half]).slope
    return {
        "loaded_bytes": base.loaded_bytes,
        "base_bytes": base.assigned_bytes,
        "peak_bytes": peak,
        OVER: peak - base.assigned_bytes,
        "slope_bytes_a_second": slope,
        GROWN: slope * (half[-1].at - half[0].at) / peak,
        "handled_a_second": handled / (samples[-1].at - samples[0].at),
    }


def bound(budget: int) -> float:
    """Return the goal for OVER: bytes over the base with this budget, with one broker."""
    return budget * (1 + _RECEIVED) + _AT_WORK


def table(title: str, results: Sequence[Result], budgets: Mapping[str, int], load: float) -> Table:
    """Return the table. `budgets` has the byte budgets of the contenders that have one."""
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
