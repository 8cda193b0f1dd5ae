"""What landings come to: figures, the goal, the table. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bench.common.results import Figures, Result
from bench.common.tables import Column, Goal, Goals, Row, Table, ratios
from bench.land.landed import Landed
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
"""How many times as fast the first is to be as the second."""


def figures(outcome: Outcome, landed: Landed) -> Figures:
    rows = sum(partition.rows for partition in landed.partitions.values())
    return {
        RATE: rows / outcome.seconds,
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "peak_rss_bytes": outcome.peak_rss_bytes,
        "files": landed.files,
    }


def table(title: str, results: Sequence[Result], notes: Sequence[str], load: float) -> Table:
    return Table(
        title=title,
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=ratios(results, RATE, GOALS),
        ratio_means="ours is faster",
        notes=notes,
        load=load,
    )
