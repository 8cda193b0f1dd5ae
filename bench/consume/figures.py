"""What the runs of the contenders come to: which have failed, rates, ratios, the fastest. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs

from bench.common.machine import Machine
from bench.common.spread import Spread, ratio
from bench.consume.contenders import Contender
from bench.consume.options import Combination
from bench.consume.programs.reading import Outcome

GOALS: Mapping[tuple[str, str], float] = {
    ("sarameya-messages", "aiokafka-iterator"): 6.0,
    ("sarameya-messages", "aiokafka-getmany"): 2.2,
    ("sarameya-messages", "confluent-consume"): 5.0,
    ("sarameya-messages", "sarama"): 0.7,
    ("sarameya-arrow", "sarameya-messages"): 1.2,
}
"""How many times as fast the first is to be as the second, at the combination `GOALS_AT`."""
GOALS_AT = (200, "none", "random")


def fault(outcome: Outcome, combination: Combination) -> str | None:
    """Why a run does not count; None where it has read exactly what there is."""
    if outcome.messages != combination.messages:
        return f"read {outcome.messages} messages of {combination.messages}"
    wanted = combination.messages * combination.size
    if abs(outcome.bytes - wanted) > outcome.bytes_within:
        return f"read {outcome.bytes} bytes of {wanted}"
    if outcome.seconds <= 0:
        return f"took {outcome.seconds:g} s"
    return None


@attrs.define
class Result:
    """All runs of one contender at one combination, round by round."""

    contender: Contender
    outcomes: list[Outcome] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)

    def add(self, run: Outcome | str, combination: Combination) -> None:
        """`run` is what it told, or why it told nothing."""
        reason = run if isinstance(run, str) else fault(run, combination)
        if reason is not None:
            self.failures.append(reason)
        elif isinstance(run, Outcome):
            self.outcomes.append(run)

    @property
    def counts(self) -> bool:
        """Whether it has figures: at least one run, and all of them right."""
        return bool(self.outcomes) and not self.failures

    @property
    def rates(self) -> list[float]:
        """Messages a second."""
        return [outcome.messages / outcome.seconds for outcome in self.outcomes]

    def spread(self, figure: Callable[[Outcome], float]) -> Spread:
        return Spread.of([figure(outcome) for outcome in self.outcomes])


@attrs.frozen
class Ratio:
    """Ours / theirs in messages a second: above 1, ours is faster."""

    ours: str
    theirs: str
    spread: Spread
    goal: float | None

    @property
    def reached(self) -> bool | None:
        return None if self.goal is None else self.spread.median >= self.goal


@attrs.frozen
class Field:
    """One combination, and how everyone did at it."""

    combination: Combination
    log_bytes: int
    results: list[Result]
    load: float
    """The machine's load average over the last minute, at the end."""

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if not result.counts]

    @property
    def ratios(self) -> list[Ratio]:
        """Each of ours against each peer, and what else has a goal; none for who has failed."""
        good = [result for result in self.results if result.counts]
        return [
            Ratio(ours.contender.name, theirs.contender.name, ratio(ours.rates, theirs.rates), self._goal(ours, theirs))
            for ours in good
            for theirs in good
            if ours.contender.is_ours and (not theirs.contender.is_ours or _is_goal(ours, theirs))
        ]

    def _goal(self, ours: Result, theirs: Result) -> float | None:
        at = (self.combination.size, self.combination.codec, self.combination.values)
        return GOALS.get((ours.contender.name, theirs.contender.name)) if at == GOALS_AT else None


@attrs.frozen
class Run:
    """All that a run of the bench has measured."""

    machine: Machine
    repeats: int
    fields: list[Field]

    @property
    def versions(self) -> dict[str, str]:
        """The version of each contender that has told it."""
        results = [result for field in self.fields for result in field.results]
        return {result.contender.name: result.outcomes[0].version for result in results if result.outcomes}


def fastest(results: Iterable[Result]) -> Result | None:
    """The one with the highest median rate, of those that count."""
    good = [result for result in results if result.counts]
    return max(good, key=lambda result: Spread.of(result.rates).median, default=None)


def _is_goal(ours: Result, theirs: Result) -> bool:
    return (ours.contender.name, theirs.contender.name) in GOALS
