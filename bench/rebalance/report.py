"""Prints the figures and how ours compare with each peer's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.common.machine import Machine
from bench.common.rows import row
from bench.common.spread import Spread, ratio
from bench.rebalance.figures import Cost
from bench.rebalance.rounds import OPTIONS, PARTITIONS, RATE, ROUNDS, Measured

_COLUMNS = (
    "third's first message",
    "kept paused, joining",
    "taken over",
    "kept paused, leaving",
    "(nothing happening)",
)
_NAME = 52
_WIDTH = 23


def report(measured: Iterable[Measured]) -> None:
    """Print each contender as it comes, then the ratios."""
    print(
        f"rebalance: {PARTITIONS} partitions, {RATE:g} messages/s, heartbeats each {OPTIONS['heartbeat_interval']:g} s,"
        f" {ROUNDS} rounds; milliseconds: median (least, most)\n{Machine.here()}"
    )
    print(_row("", [*_COLUMNS, "load"]), flush=True)
    done = []
    for one in measured:
        done.append(one)
        print(_row(str(one.contender), [*map(_spread, _columns(one)), f"{one.load:.1f}"]), flush=True)
    print("\nratios of the medians, ours / theirs (below 1: ours is quicker)")
    for ours in (one for one in done if one.contender.is_ours):
        for theirs in (one for one in done if not one.contender.is_ours):
            ratios = [ratio(a, b).median for a, b in zip(_columns(ours), _columns(theirs), strict=True)]
            print(_row(f"{ours.contender} / {theirs.contender}", [f"{number:.2f}" for number in ratios[:-1]]))


def _columns(one: Measured) -> list[list[float]]:
    def each(costs: Sequence[Cost], name: str) -> list[float]:
        return [getattr(cost, name) for cost in costs]

    return [
        each(one.joins, "wait"),
        each(one.joins, "pause"),
        each(one.leaves, "wait"),
        each(one.leaves, "pause"),
        each([*one.joins, *one.leaves], "steady"),
    ]


def _spread(seconds: Sequence[float]) -> str:
    return Spread.of(seconds).text(lambda second: f"{1000 * second:.0f}")


def _row(name: str, cells: Iterable[str]) -> str:
    return row(name, cells, name_width=_NAME, cell_width=_WIDTH)
