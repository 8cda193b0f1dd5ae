"""Figures of the contenders' runs, the goal, and the tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bench.common.results import Figures, Result
from bench.common.tables import Column, Goal, Goals, Row, Table, ratios
from bench.land.programs.landing import Outcome

RATE = "rows_per_second"
COLUMNS = (
    Column(RATE, "1000 rows/s", scale=1e-3),
    Column("seconds", "seconds", digits=2),
    Column("cpu_seconds", "CPU seconds", digits=2),
    Column("peak_rss_bytes", "peak RSS, MB", scale=1e-6),
    Column("files", "files"),
)

GOALS: Goals = {("sarameya", "spark-source"): Goal(1.2)}
"""Goal for the ratio of the first contender's rate to the second's."""

_STAGE = "stage "
_LANDINGS = "landings"


def figures(outcome: Outcome, rows: int, files: int, peak_rss_bytes: int) -> Figures:
    return {
        RATE: rows / outcome.seconds,
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "peak_rss_bytes": peak_rss_bytes,
        "files": files,
        _LANDINGS: outcome.landings,
        **{f"{_STAGE}{stage}": seconds for stage, seconds in outcome.stages.items()},
    }


def table(title: str, results: Sequence[Result], notes: Sequence[str], load: float) -> Table:
    return Table(
        title=title,
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=ratios(results, RATE, GOALS),
        ratio_means="ours is faster",
        notes=[*_stages(results), *notes],
        load=load,
    )


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the time in which at least one of these (begin, end) lasted."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return total


def _stages(results: Iterable[Result]) -> Iterator[str]:
    """Yield a note for each contender: where its seconds went."""
    for result in results:
        if result.counts:
            keys = [key for key in result.runs[0] if key.startswith(_STAGE) and all(key in run for run in result.runs)]
            parts = [f"{key.removeprefix(_STAGE)} {result.spread(key).median:.2f} s" for key in keys]
            yield f"{result.name}, {result.spread(_LANDINGS).median:.0f} landings: {', '.join(parts)}"
