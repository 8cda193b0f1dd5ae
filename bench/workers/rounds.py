"""The rounds: the service reads a full topic, with one worker, then with two."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import attrs
import trio

from bench.common.broker import running_kafka
from bench.common.filling import Contents, Filled, fill
from bench.common.machine import load
from bench.common.presenting import show_progress
from bench.common.processes import cores, usage
from bench.common.results import Figures, Result
from bench.common.tables import Table
from bench.members.rounds import leaves
from bench.members.running import MemberError, open_program
from bench.workers.figures import RATE, assignment, assignment_text, fault, figures, is_complete, name, table
from bench.workers.handler import WorkerLine
from tests.integration.real_kafka import RealKafka

PARTITIONS = 4
SIZE = 200
_READ_SECONDS = 120.0

_APP = """
bootstrap_servers = ["{bootstrap}"]
group = "{group}"
topics = ["{topic}"]

[config]
offset_initial = "oldest"
autocommit = false
heartbeat_interval = 0.5

[handler]
name = "bench.workers.handler:GatedReader"

[handler.options]
gate = {gate}
ends = {ends}

[service]
on_failure = "stop"
"""


@attrs.frozen
class Plan:
    """Measurements to make."""

    workers: Sequence[int]
    """Numbers of workers, measured one after the other."""
    repeats: int
    messages: int


def measure(plan: Plan) -> Iterator[Table]:
    """Yield the only table. Raises FillingError."""
    results = [Result(name(workers), is_ours=True, version=version("sarameya")) for workers in plan.workers]
    assignments: dict[str, None] = {}
    with running_kafka() as kafka:
        show_progress(f"workers: filling with {plan.messages} messages")
        filled = fill(kafka, "workers", Contents(plan.messages, SIZE, PARTITIONS))
        for number in range(plan.repeats):
            for workers, result in zip(plan.workers, results, strict=True):
                outcome = _attempt(kafka, filled, workers, f"workers-{workers}-{number}", assignments)
                result.add(outcome)
                text = outcome if isinstance(outcome, str) else f"{outcome[RATE]:,.0f}/s"
                show_progress(f"workers: round {number + 1} of {plan.repeats}: {result.name} {text}")
    yield table(results, list(assignments), load())


def _attempt(kafka: RealKafka, filled: Filled, workers: int, group: str, assignments: dict[str, None]) -> Figures | str:
    failures: list[str] = []
    try:
        return trio.run(_run, kafka, filled, workers, group, assignments)
    except* (MemberError, OSError) as raised:  # OSError: a measured process has ended
        failures += (str(error) for error in leaves(raised))
    return "; ".join(failures)


async def _run(kafka: RealKafka, filled: Filled, workers: int, group: str, assignments: dict[str, None]) -> Figures:
    """Run the service once, and return its figures. Adds its assignment to `assignments`."""
    with tempfile.TemporaryDirectory() as directory:
        gate = trio.Path(directory, "gate")
        command = _command(Path(directory, "app.toml"), kafka, filled, group, str(gate), workers)
        async with open_program(command, WorkerLine.of_json) as service:
            await service.until(
                lambda: is_complete(assignment(service.lines), workers, PARTITIONS),
                f"an assignment of {PARTITIONS} partitions to {name(workers)}",
            )
            assigned = assignment(service.lines)
            assignments[f"{name(workers)}: partitions {assignment_text(assigned)}"] = None
            pids = list(assigned)
            broker = kafka.nodes[0].pid
            before = [usage(pid) for pid in (*pids, broker)]
            await gate.touch()
            await service.until(lambda: len(_read(service.lines)) == PARTITIONS, "the last message", _READ_SECONDS)
            *used, by_broker = [cores(start, usage(pid)) for start, pid in zip(before, (*pids, broker), strict=True)]
            await service.stop()
    read = _read(service.lines)
    if (reason := fault(read, filled.ends)) is not None:
        raise MemberError(reason)
    return figures(read, sum(used), by_broker)


def _read(lines: Sequence[WorkerLine]) -> list[WorkerLine]:
    return [line for line in lines if line.event == "read"]


def _command(path: Path, kafka: RealKafka, filled: Filled, group: str, gate: str, workers: int) -> list[str]:
    path.write_text(
        _APP.format(
            bootstrap=kafka.bootstrap_servers[0],
            group=group,
            topic=filled.topic,
            gate=json.dumps(gate),
            ends=list(filled.ends),
        ),
        encoding="utf-8",
    )
    return [sys.executable, "-m", "sarameya.service", "run", str(path), "--workers", str(workers)]
