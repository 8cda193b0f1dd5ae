"""The rounds: two topics are filled, then both contenders land them, one after the other, and again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import trio

from bench.common.broker import running_kafka
from bench.common.filling import Contents, Filled, fill
from bench.common.machine import load
from bench.common.presenting import say
from bench.common.results import Figures, Result
from bench.common.tables import Table
from bench.land.contenders import Contender
from bench.land.figures import RATE, figures, table
from bench.land.jars import source_jars
from bench.land.landed import fault, read
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
    contenders: Sequence[Contender]
    repeats: int
    messages: int
    """In the topic that counts,"""
    warm_messages: int
    """and in the one before."""


def measure(plan: Plan) -> Iterator[Table]:
    """The one table. Raises JarsError, FillingError."""
    source_jars()
    results = [Result(one.name, one.is_ours, one.version) for one in plan.contenders]
    with running_kafka() as kafka:
        say(f"land: filling with {plan.messages} messages")
        warm = fill(kafka, "land-warm", Contents(plan.warm_messages, SIZE, PARTITIONS))
        full = fill(kafka, "land", Contents(plan.messages, SIZE, PARTITIONS))
        for number in range(plan.repeats):
            for contender, result in zip(plan.contenders, results, strict=True):
                landed = _attempt(kafka, warm, full, contender, number)
                result.add(landed)
                told = landed if isinstance(landed, str) else f"{landed[RATE]:,.0f}/s"
                say(f"land: round {number + 1} of {plan.repeats}: {contender.name} {told}")
    notes = [
        f"{plan.warm_messages} messages landed before",
        f"{full.log_bytes / plan.messages:.0f} bytes a message in the log",
    ]
    yield table(f"{MASTER}, {SIZE} B x {plan.messages}", results, notes, load())


def _attempt(kafka: RealKafka, warm: Filled, full: Filled, contender: Contender, number: int) -> Figures | str:
    with tempfile.TemporaryDirectory(prefix="sarameya-land-", ignore_cleanup_errors=True) as directory:
        task = Task(
            bootstrap=kafka.bootstrap_servers[0],
            group=f"{contender.name}-{number}",
            warm=Source(warm.topic, warm.ends),
            full=Source(full.topic, full.ends),
            directory=directory,
            master=MASTER,
            driver_memory=DRIVER_MEMORY,
        )
        os.sync()  # or else the disk is still written to by the one before
        failures: list[str] = []
        try:
            outcome = trio.run(run_program, contender.command(task), _START_SECONDS + sum(full.ends) / _SLOWEST)
        except* MemberError as raised:
            failures += (str(error) for error in leaves(raised))
        if failures:
            return "; ".join(failures)
        landed = read(Path(directory, TABLE))
        return fault(landed, full.ends, SIZE) or figures(outcome, landed)


async def run_program(command: Sequence[str], seconds: float) -> Outcome:
    """What the program tells in its last line. Raises MemberError where it does not, or does not end well."""
    async with open_program(command, Outcome.of_json) as program:
        await program.until(lambda: bool(program.lines), "what it came to", seconds)
        with trio.move_on_after(_END_SECONDS):
            await program.process.wait()
        await program.stop()
    return program.lines[-1]
