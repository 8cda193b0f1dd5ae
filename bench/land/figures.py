"""Figures of the contenders' runs, the goal, and the tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

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
_REQUESTS = "requests "
_LANDINGS = "landings"


def figures(
    outcome: Outcome, rows: int, files: int, peak_rss_bytes: int, requests: Mapping[str, int] = MappingProxyType({})
) -> Figures:
    """Return the figures of a run. `requests` are those to the object store, by operation."""
    return {
        RATE: rows / outcome.seconds,
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "peak_rss_bytes": peak_rss_bytes,
        "files": files,
        _LANDINGS: outcome.landings,
        **{f"{_STAGE}{stage}": seconds for stage, seconds in outcome.stages.items()},
        **{f"{_REQUESTS}{operation}": number for operation, number in requests.items()},
    }


def table(title: str, results: Sequence[Result], notes: Sequence[str], load: float) -> Table:
    return Table(
        title=title,
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=ratios(results, RATE, GOALS),
        ratio_means="ours is faster",
        notes=[*_stages(results), *_requests(results), *notes],
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
            parts = [f"{stage} {seconds:.2f} s" for stage, seconds in _medians(result, _STAGE).items()]
            yield f"{result.name}, {result.spread(_LANDINGS).median:.0f} landings: {', '.join(parts)}"


def _requests(results: Iterable[Result]) -> Iterator[str]:
    """Yield a note for each contender whose table is in an object store: its requests."""
    for result in results:
        if result.counts and (numbers := _medians(result, _REQUESTS)):
            parts = [f"{operation} {number:.0f}" for operation, number in sorted(numbers.items())]
            yield f"{result.name}, {sum(numbers.values()):.0f} requests: {', '.join(parts)}"


def _medians(result: Result, prefix: str) -> dict[str, float]:
    """Return the medians of the figures whose names begin with a prefix, and that all runs have; without the prefix."""
    keys = [key for key in result.runs[0] if key.startswith(prefix) and all(key in run for run in result.runs)]
    return {key.removeprefix(prefix): result.spread(key).median for key in keys}
