"""What the runs of the contenders come to: what counts, figures, goals, a table for each combination. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bench.common.results import Figures, Result
from bench.common.tables import Column, Goal, Goals, Row, Table, ratios
from bench.consume.options import Combination
from bench.consume.programs.reading import Outcome

RATE = "messages_per_second"
COLUMNS = (
    Column(RATE, "1000 messages/s", scale=1e-3),
    Column("bytes_per_second", "MB/s", scale=1e-6),
    Column("seconds", "seconds", digits=2),
    Column("seconds_from_start", "from start", digits=2),
    Column("cpu_seconds", "CPU seconds", digits=2),
    Column("peak_rss_bytes", "peak RSS, MB", scale=1e-6),
)

GOALS: Goals = {
    ("sarameya-messages", "aiokafka-iterator"): Goal(6.0),
    ("sarameya-messages", "aiokafka-getmany"): Goal(2.2),
    ("sarameya-messages", "confluent-consume"): Goal(5.0),
    ("sarameya-messages", "sarama"): Goal(0.7),
    ("sarameya-arrow", "sarameya-messages"): Goal(1.2),
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


def add(result: Result, run: Outcome | str, combination: Combination) -> None:
    """Count a run: what it told, or why it told nothing."""
    reason = run if isinstance(run, str) else fault(run, combination)
    if reason is not None:
        result.add(reason)
    elif isinstance(run, Outcome):
        result.version = run.version
        result.add(figures(run))


def figures(outcome: Outcome) -> Figures:
    return {
        RATE: outcome.messages / outcome.seconds,
        "bytes_per_second": outcome.bytes / outcome.seconds,
        "seconds": outcome.seconds,
        "seconds_from_start": outcome.seconds_from_start,
        "cpu_seconds": outcome.cpu_seconds,
        "peak_rss_bytes": outcome.peak_rss_bytes,
    }


def table(combination: Combination, log_bytes: int, results: Sequence[Result], load: float) -> Table:
    is_goals_place = (combination.size, combination.codec, combination.values) == GOALS_AT
    return Table(
        title=f"{combination} x {combination.messages}",
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=ratios(results, RATE, GOALS if is_goals_place else None),
        ratio_means="ours is faster",
        notes=[f"{log_bytes / combination.messages:.0f} bytes a message in the log"],
        load=load,
    )
