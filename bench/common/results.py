"""Results of a contender: the figures of each run, or the reasons why runs failed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from bench.common.spread import Spread

Figures = Mapping[str, float]
"""Figures of one run, by key. Times are seconds, sizes are bytes; `Column` scales them for output."""


@attrs.define
class Result:
    """All runs of one contender for one table."""

    name: str
    is_ours: bool = False
    version: str = ""
    runs: list[Figures] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)

    def add(self, run: Figures | str) -> None:
        """Add the figures of a run, or the reason why it does not count."""
        if isinstance(run, str):
            self.failures.append(run)
        else:
            self.runs.append({key: float(number) for key, number in run.items()})

    @property
    def counts(self) -> bool:
        """True if it has figures: at least one run, and no failure."""
        return bool(self.runs) and not self.failures

    def numbers(self, key: str) -> list[float]:
        return [run[key] for run in self.runs]

    def spread(self, key: str) -> Spread:
        return Spread.of(self.numbers(key))


def best(results: Iterable[Result], key: str) -> Result | None:
    """Return the result with the highest median of `key`, of those that count; None if none does."""
    good = [result for result in results if result.counts]
    return max(good, key=lambda result: result.spread(key).median, default=None)
