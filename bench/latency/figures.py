"""Percentiles of latencies, and the check of a run. Pure. Times are seconds, except for lateness: nanoseconds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from bench.common.results import Figures, Result
from bench.common.tables import Column, Goal, Goals, Row, Table, ratios
from bench.latency.contenders import TUNED
from bench.latency.sending import Sent
from bench.members.protocol import Line

P99 = "p99"
CPU = "cpu_seconds_a_second"
_QUANTILES = {"p50": 0.5, P99: 0.99, "p999": 0.999, "most": 1.0}
COLUMNS = (
    Column("p50", "p50, ms", scale=1e3, digits=2),
    Column(P99, "p99, ms", scale=1e3, digits=2),
    Column("p999", "p99.9, ms", scale=1e3, digits=2),
    Column("most", "most, ms", scale=1e3, digits=2),
    Column("acknowledged_p50", "acknowledged p50, ms", scale=1e3, digits=2),
    Column("acknowledged_p99", "acknowledged p99, ms", scale=1e3, digits=2),
    Column(CPU, "CPU, ms/s", scale=1e3),
)
GOALS: Goals = {
    ("sarameya", "confluent-kafka"): Goal(1.0, at_most=True),
    (f"sarameya{TUNED}", f"confluent-kafka{TUNED}"): Goal(1.0, at_most=True),
}
"""Goal for the ratio of the first contender's 99th percentile to the second's."""
_MAX_DURATION = 1.02
"""A producer that takes longer, as a multiple of the planned time, has not sent at the rate."""


def fault(done: Line, sent: Sent, messages: int, rate: float) -> str | None:
    """Return the reason why a run does not count; None if all messages were sent at the rate, and each came once.

    Without a rate (0), it does not matter how long the sending took.
    """
    if sent.failures or len(sent.acknowledged) != messages:
        return f"{sent.failures} of {messages} messages could not be sent, {len(sent.acknowledged)} were acknowledged"
    if rate and sent.seconds > _MAX_DURATION * messages / rate:
        return f"{messages} messages took {sent.seconds:.2f} s to be sent"
    counted = Counter(done.sequences)
    missing = messages - len(counted)
    twice = sum(count - 1 for count in counted.values())
    if missing or twice:
        return f"{missing} of {messages} messages did not come, {twice} came more than once"
    return None


def figures(done: Line, sent: Sent, first: int) -> Figures:
    """Return the figures of a run. Messages before number `first` are not counted."""
    lateness = [late for sequence, late in zip(done.sequences, done.lateness, strict=True) if sequence >= first]
    acknowledged = sent.acknowledged[first:]
    return {
        **{key: quantile(lateness, share) / 1e9 for key, share in _QUANTILES.items()},
        "acknowledged_p50": quantile(acknowledged, 0.5) / 1e9,
        "acknowledged_p99": quantile(acknowledged, 0.99) / 1e9,
    }


def quantile(numbers: Sequence[int], share: float) -> int:
    """Return the least number for which at least this share of the numbers is not greater.

    Raises:
        ValueError: There are no numbers.
    """
    if not numbers:
        raise ValueError("a quantile of no numbers")
    return sorted(numbers)[max(0, math.ceil(share * len(numbers)) - 1)]


def table(results: Sequence[Result], load: float) -> Table:
    """Return the table. Ratios compare contenders with defaults, and compare tuned ones."""
    defaults = [result for result in results if not result.name.endswith(TUNED)]
    tuned = [result for result in results if result.name.endswith(TUNED)]
    return Table(
        title="produce to handler",
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=[
            ratio
            for group in (defaults, tuned)
            for key in _QUANTILES
            for ratio in ratios(group, key, GOALS if key == P99 else None)
        ],
        ratio_means="ours is later",
        load=load,
    )
