"""The rounds: fills two topics, which both contenders land one after the other, round by round, case by case."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import attrs
import pyarrow as pa
import trio

from bench.common.broker import running_kafka
from bench.common.events import event_table
from bench.common.filling import Contents, Filled, fill, pool
from bench.common.machine import load
from bench.common.presenting import show_progress
from bench.common.results import Figures, Result
from bench.common.tables import Table
from bench.common.watching import watching
from bench.land.contenders import Case, Contender
from bench.land.figures import RATE, figures, table
from bench.land.jars import delta_jars, source_jars
from bench.land.landed import Expected, batches, fault, files
from bench.land.programs.landing import TABLE, WARM, Outcome, Source, Task
from bench.members.rounds import leaves
from bench.members.running import MemberError, open_program
from tests.integration.object_stores.gateway import Gateway
from tests.integration.real_kafka import RealKafka

PARTITIONS = 4
SIZE = 200
MASTER = "local[2]"
DRIVER_MEMORY = "1g"
"""Spark's default."""

_START_SECONDS = 120.0
_END_SECONDS = 30.0
_PREFIX = "bench-"
"""Prefix of the names of buckets."""
_SLOWEST = 20_000
"""Rows per second: a contender that is slower has failed."""


@attrs.frozen
class Plan:
    """Measurements to make."""

    cases: Sequence[Case]
    contenders: Sequence[Contender]
    repeats: int
    messages: int
    """Messages of the topic that is measured."""
    warm_messages: int
    """Messages of the topic that lands before."""

    @property
    def contents(self) -> Contents:
        return Contents(self.messages, SIZE, PARTITIONS, values="events")


def measure(plan: Plan) -> Iterator[Table]:
    """Yield a table for each case. Raises JarsError, FillingError."""
    source_jars()
    delta_jars()
    with running_kafka() as kafka:
        show_progress(f"land: filling with {plan.messages} messages")
        warm = fill(kafka, "land-warm", attrs.evolve(plan.contents, messages=plan.warm_messages))
        full = fill(kafka, "land", plan.contents)
        for case in plan.cases:
            yield _measure(kafka, warm, full, plan, case)


def _measure(kafka: RealKafka, warm: Filled, full: Filled, plan: Plan, case: Case) -> Table:
    results = [Result(contender.name, contender.is_ours, contender.version) for contender in plan.contenders]
    values = pool(plan.contents)
    expected = Expected(full.ends, event_table(values) if case.is_parsed else pa.table({"value": pa.array(values)}))
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
            landed = _attempt(contender, task, expected, is_on_s3=case.is_on_s3)
            result.add(landed)
            text = landed if isinstance(landed, str) else f"{landed[RATE]:,.0f}/s"
            show_progress(f"land: {case.name}, round {number + 1} of {plan.repeats}: {contender.name} {text}")
    notes = [
        f"{plan.warm_messages} messages landed before",
        f"{full.log_bytes / plan.messages:.0f} bytes a message in the log",
    ]
    return table(f"{case.title}: {MASTER}, {SIZE} B x {plan.messages}", results, notes, load())


def _attempt(contender: Contender, task: Task, expected: Expected, *, is_on_s3: bool) -> Figures | str:
    """Run a task in a new directory, or in buckets there. Return its figures, or the reason why it failed."""
    with (
        tempfile.TemporaryDirectory(prefix="sarameya-land-", ignore_cleanup_errors=True) as directory,
        _gateway(Path(directory)) if is_on_s3 else nullcontext() as gateway,
    ):
        os.sync()  # otherwise the disk is still busy with writes of the previous run
        command = contender.command(attrs.evolve(task, directory=directory, store=_PREFIX if gateway else ""))
        failures: list[str] = []
        try:
            outcome, peak = trio.run(run_program, command, _START_SECONDS + sum(task.full.ends) / _SLOWEST)
        except* MemberError as raised:
            failures += (str(error) for error in leaves(raised))
        if failures:
            return "; ".join(failures)
        place = gateway.buckets / f"{_PREFIX}{TABLE}" / "landed" if gateway else Path(directory, TABLE)
        landed = files(task.kind, place)
        if wrong := fault(batches(landed, expected.rows.column_names), expected):
            return wrong
        requests = gateway.requests(f"{_PREFIX}{TABLE}") if gateway else {}
        return figures(outcome, sum(expected.ends), len(landed), peak, requests)


@contextmanager
def _gateway(directory: Path) -> Iterator[Gateway]:
    """Run a gateway with buckets for both tables. Programs find it in their environment."""
    with Gateway(directory) as gateway:
        for name in (WARM, TABLE):
            gateway.make_bucket(f"{_PREFIX}{name}")
        before = dict(os.environ)
        os.environ.update(gateway.environment)
        try:
            yield gateway
        finally:
            os.environ.clear()
            os.environ.update(before)


async def run_program(command: Sequence[str], seconds: float) -> tuple[Outcome, int]:
    """Run a landing program.

    Args:
        command: The command.
        seconds: Time-out of the outcome.

    Returns:
        The outcome, and the peak memory of the program and its descendants, in bytes.

    Raises:
        MemberError: The program reports no outcome, or does not end with 0.
    """
    async with open_program(command, Outcome.of_json) as program, watching(program.pid) as peak:
        await program.until(lambda: bool(program.lines), "its outcome", seconds)
        with trio.move_on_after(_END_SECONDS):
            await program.process.wait()
        await program.stop()
    return program.lines[-1], peak.rss_bytes
