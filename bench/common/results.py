"""What a contender's runs came to: its figures by name, round by round, or why there are none. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from bench.common.spread import Spread

Figures = Mapping[str, float]
"""One run's: each figure by its key. Times are seconds, sizes are bytes; what is shown otherwise is a column's."""


@attrs.define
class Result:
    """All runs of one contender at one thing."""

    name: str
    is_ours: bool = False
    version: str = ""
    runs: list[Figures] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)

    def add(self, run: Figures | str) -> None:
        """`run` is what it came to, or, for people, why it does not count."""
        if isinstance(run, str):
            self.failures.append(run)
        else:
            self.runs.append({key: float(number) for key, number in run.items()})

    @property
    def counts(self) -> bool:
        """Whether it has figures: at least one run, and all of them right."""
        return bool(self.runs) and not self.failures

    def numbers(self, key: str) -> list[float]:
        return [run[key] for run in self.runs]

    def spread(self, key: str) -> Spread:
        return Spread.of(self.numbers(key))


def best(results: Iterable[Result], key: str) -> Result | None:
    """The one whose median of `key` is the highest, of those that count."""
    good = [result for result in results if result.counts]
    return max(good, key=lambda result: result.spread(key).median, default=None)
