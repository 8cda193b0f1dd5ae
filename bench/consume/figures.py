"""Results of the contenders' runs: which runs count, figures, goals, a table for each combination. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bench.common.filling import KEY_BYTES
from bench.common.results import Figures, Result
from bench.common.tables import Column, Goal, Goals, Row, Table, ratios
from bench.consume.options import Combination
from bench.consume.programs.reading import Outcome

RATE = "messages_per_second"
CPU = "cpu_seconds_per_message"
COLUMNS = (
    Column(RATE, "1000 messages/s", scale=1e-3),
    Column(CPU, "CPU, ns a message", scale=1e9),
    Column("bytes_per_second", "MB/s", scale=1e-6),
    Column("seconds", "seconds", digits=2),
    Column("seconds_from_start", "from start", digits=2),
    Column("cpu_seconds", "CPU seconds", digits=2),
    Column("peak_rss_bytes", "peak RSS, MB", scale=1e-6),
)

GOALS: Goals = {
    ("sarameya-marked", "aiokafka-iterator"): Goal(5.0),
    ("sarameya-marked", "aiokafka-getmany"): Goal(2.0),
    ("sarameya-marked", "confluent-tuned"): Goal(2.0),
    ("sarameya-marked", "sarama"): Goal(0.75),
    ("sarameya-arrow", "sarama"): Goal(1.5),
}
"""Goal for the ratio of the first contender's rate to the second's, at the combination `GOALS_AT`."""
GOALS_AT = (200, "none", "random")
GOALS_ELSEWHERE: Goals = {("sarameya-marked", "sarama"): Goal(0.7)}
"""Goal at all other combinations."""


def fault(outcome: Outcome, combination: Combination) -> str | None:
    """Return the reason why a run does not count; None if it has read exactly all messages."""
    if outcome.messages != combination.messages:
        return f"read {outcome.messages} messages of {combination.messages}"
    wanted = combination.messages * (combination.size + KEY_BYTES)
    if abs(outcome.bytes - wanted) > outcome.bytes_within:
        return f"read {outcome.bytes} bytes of {wanted}"
    if outcome.seconds <= 0:
        return f"took {outcome.seconds:g} s"
    return None


def add(result: Result, run: Outcome | str, combination: Combination) -> None:
    """Add a run to the result: its outcome, or the reason why it has none."""
    reason = run if isinstance(run, str) else fault(run, combination)
    if reason is not None:
        result.add(reason)
    elif isinstance(run, Outcome):
        result.version = run.version
        result.add(figures(run))


def figures(outcome: Outcome) -> Figures:
    """Return the figures of one run."""
    return {
        RATE: outcome.messages / outcome.seconds,
        CPU: outcome.reading_cpu_seconds / outcome.messages,
        "bytes_per_second": outcome.bytes / outcome.seconds,
        "seconds": outcome.seconds,
        "seconds_from_start": outcome.seconds_from_start,
        "cpu_seconds": outcome.cpu_seconds,
        "peak_rss_bytes": outcome.peak_rss_bytes,
    }


def table(combination: Combination, log_bytes: int, results: Sequence[Result], load: float) -> Table:
    """Return the table of one combination. `log_bytes` is the size of its topic's log."""
    is_goals_place = (combination.size, combination.codec, combination.values) == GOALS_AT
    return Table(
        title=f"{combination} x {combination.messages}",
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=ratios(results, RATE, GOALS if is_goals_place else GOALS_ELSEWHERE),
        ratio_means="ours is faster",
        notes=[f"{log_bytes / combination.messages:.0f} bytes a message in the log"],
        load=load,
    )
