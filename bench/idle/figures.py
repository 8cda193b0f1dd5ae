"""Figures of a quiet member, per second. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bench.common.processes import Usage, cores
from bench.common.results import Figures, Result
from bench.common.tables import Column, Row, Table, ratios
from bench.idle.requests import Traffic

CPU = "cpu_seconds_a_second"
RSS = "rss_bytes"
COLUMNS = (
    Column(CPU, "CPU, ms/s", scale=1e3, digits=1),
    Column(RSS, "RSS, MB", scale=1e-6, digits=1),
    Column("requests_a_second", "requests/s", digits=1),
    Column("fetches_a_second", "fetches/s", digits=1),
    Column("bytes_sent_a_second", "B/s sent"),
    Column("bytes_received_a_second", "B/s received"),
)


def figures(before: Usage, after: Usage, traffic: Traffic) -> Figures:
    """Return the figures of one period. `traffic` is the traffic in it."""
    seconds = after.at - before.at
    return {
        CPU: cores(before, after),
        RSS: after.rss_bytes,
        "requests_a_second": traffic.requests / seconds,
        "fetches_a_second": traffic.fetches / seconds,
        "bytes_sent_a_second": traffic.bytes_sent / seconds,
        "bytes_received_a_second": traffic.bytes_received / seconds,
    }


def table(partitions: int, results: Sequence[Result], load: float) -> Table:
    return Table(
        title=f"{partitions} partition(s)",
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=[ratio for key in (CPU, RSS) for ratio in ratios(results, key)],
        ratio_means="ours takes more",
        load=load,
    )
