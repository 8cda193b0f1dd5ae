"""Builders of sample results, tables and documents for the tests of `bench.common`."""

from __future__ import annotations

from bench.common.machine import Machine
from bench.common.results import Result
from bench.common.tables import Column, Document, Goal, Row, Table, checks, ratios

RATE = Column("rate", "1000 messages/s", scale=1e-3)
SECONDS = Column("seconds", "seconds", digits=2)
COLUMNS = (RATE, SECONDS)
MACHINE = Machine(2, 24 * 2**30, "Linux 6", "3.11.7", "2026-01-31 12:00", "abc1234")


def result(name: str, *rates: float, failures: tuple[str, ...] = (), is_ours: bool = False) -> Result:
    made = Result(name, is_ours, "1.2.3", failures=list(failures))
    for rate in rates:
        made.add({"rate": rate, "seconds": 1e6 / rate})
    return made


def table(*results: Result, goal: Goal | None = None, bound: Goal | None = None) -> Table:
    """Return a table with the ratios of rates.

    Args:
        results: one row each.
        goal: the goal of the ratio ours / theirs.
        bound: the goal of the seconds of "ours".
    """
    return Table(
        title="200 B",
        columns=COLUMNS,
        rows=[Row.of(each, COLUMNS) for each in results],
        ratios=ratios(results, "rate", {} if goal is None else {("ours", "theirs"): goal}),
        ratio_means="ours is faster",
        checks=checks(results, {} if bound is None else {("ours", "seconds"): bound}),
        notes=["210 bytes a message"],
        load=1.25,
    )


def document(*tables: Table) -> Document:
    return Document("consume", "one broker, 3 round(s)", MACHINE, 65.4, list(tables))
