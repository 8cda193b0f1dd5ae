"""The rounds: two topics are filled, then both contenders land them, one after the other, and again; case by
case."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pyarrow as pa
import trio

from bench.common.broker import running_kafka
from bench.common.events import parsed
from bench.common.filling import Contents, Filled, fill, pool
from bench.common.machine import load
from bench.common.presenting import say
from bench.common.results import Figures, Result
from bench.common.tables import Table
from bench.common.watching import watching
from bench.land.contenders import Case, Contender
from bench.land.figures import RATE, figures, table
from bench.land.jars import delta_jars, source_jars
from bench.land.landed import Expected, batches, fault, files
from bench.land.programs.landing import TABLE, Outcome, Source, Task
from bench.members.rounds import leaves
from bench.members.running import MemberError, open_program
from tests.integration.real_kafka import RealKafka

PARTITIONS = 4
SIZE = 200
MASTER = "local[2]"
DRIVER_MEMORY = "1g"
"""Spark's default."""

_START_SECONDS = 120.0
_END_SECONDS = 30.0
_SLOWEST = 20_000
"""Rows a second: who is slower than that has failed."""


@attrs.frozen
class Plan:
    cases: Sequence[Case]
    contenders: Sequence[Contender]
    repeats: int
    messages: int
    """In the topic that counts,"""
    warm_messages: int
    """and in the one before."""

    @property
    def contents(self) -> Contents:
        return Contents(self.messages, SIZE, PARTITIONS, values="events")


def measure(plan: Plan) -> Iterator[Table]:
    """A table for each case. Raises JarsError, FillingError."""
    source_jars()
    delta_jars()
    with running_kafka() as kafka:
        say(f"land: filling with {plan.messages} messages")
        warm = fill(kafka, "land-warm", attrs.evolve(plan.contents, messages=plan.warm_messages))
        full = fill(kafka, "land", plan.contents)
        for case in plan.cases:
            yield _measure(kafka, warm, full, plan, case)


def _measure(kafka: RealKafka, warm: Filled, full: Filled, plan: Plan, case: Case) -> Table:
    results = [Result(one.name, one.is_ours, one.version) for one in plan.contenders]
    values = pool(plan.contents)
    expected = Expected(full.ends, parsed(values) if case.is_parsed else pa.table({"value": pa.array(values)}))
    for number in range(plan.repeats):
        for contender, result in zip(plan.contenders, results, strict=True):
            task = Task(
                bootstrap=kafka.bootstrap_servers[0],
                group=f"{contender.name}-{case.name}-{number}",
                warm=Source(warm.topic, warm.ends),
                full=Source(full.topic, full.ends),
                directory="",
                master=MASTER,
                driver_memory=DRIVER_MEMORY,
                kind=case.kind,
                is_parsed=case.is_parsed,
            )
            landed = _attempt(contender, task, expected)
            result.add(landed)
            told = landed if isinstance(landed, str) else f"{landed[RATE]:,.0f}/s"
            say(f"land: {case.name}, round {number + 1} of {plan.repeats}: {contender.name} {told}")
    notes = [
        f"{plan.warm_messages} messages landed before",
        f"{full.log_bytes / plan.messages:.0f} bytes a message in the log",
    ]
    return table(f"{case.title}: {MASTER}, {SIZE} B x {plan.messages}", results, notes, load())


def _attempt(contender: Contender, task: Task, expected: Expected) -> Figures | str:
    """`task` without its directory, which is made here."""
    with tempfile.TemporaryDirectory(prefix="sarameya-land-", ignore_cleanup_errors=True) as directory:
        os.sync()  # or else the disk is still written to by the one before
        command = contender.command(attrs.evolve(task, directory=directory))
        failures: list[str] = []
        try:
            outcome, peak = trio.run(run_program, command, _START_SECONDS + sum(task.full.ends) / _SLOWEST)
        except* MemberError as raised:
            failures += (str(error) for error in leaves(raised))
        if failures:
            return "; ".join(failures)
        landed = files(task.kind, Path(directory, TABLE))
        wrong = fault(batches(landed, expected.rows.column_names), expected)
        return wrong or figures(outcome, sum(expected.ends), len(landed), peak)


async def run_program(command: Sequence[str], seconds: float) -> tuple[Outcome, int]:
    """What the program tells in its last line, and the most memory that it and what it starts had, in bytes. Raises
    MemberError where it does not, or does not end well."""
    async with open_program(command, Outcome.of_json) as program, watching(program.pid) as peak:
        await program.until(lambda: bool(program.lines), "what it came to", seconds)
        with trio.move_on_after(_END_SECONDS):
            await program.process.wait()
        await program.stop()
    return program.lines[-1], peak.rss_bytes
