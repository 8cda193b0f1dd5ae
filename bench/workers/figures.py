"""Figures of several workers together. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.common.results import Figures, Result
from bench.common.tables import Column, Goal, Goals, Row, Table, ratios
from bench.workers.handler import WorkerLine

RATE = "messages_per_second"
COLUMNS = (
    Column(RATE, "1000 messages/s", scale=1e-3),
    Column("seconds", "seconds", digits=2),
    Column("workers_processors", "workers' processors", digits=2),
    Column("broker_processors", "broker's processors", digits=2),
)

Assignment = Mapping[int, tuple[int, ...]]
"""Each worker's partitions, by its pid."""


def name(workers: int) -> str:
    """Return the name of a row: `2 workers`."""
    return f"{workers} worker{'s' if workers > 1 else ''}"


GOALS: Goals = {(name(2), name(1)): Goal(1.0)}


def assignment(lines: Sequence[WorkerLine]) -> Assignment:
    """Return the last assignment of each worker."""
    return {line.pid: line.partitions for line in lines if line.event == "assigned"}


def is_complete(found: Assignment, workers: int, partitions: int) -> bool:
    """Return whether the workers own each partition once, and each worker owns at least one.

    Args:
        found: Assignment so far.
        workers: Expected number of workers.
        partitions: Number of partitions.
    """
    assigned = sorted(partition for owned in found.values() for partition in owned)
    return len(found) == workers and all(found.values()) and assigned == list(range(partitions))


def assignment_text(found: Assignment) -> str:
    """Return the partitions of each worker: `0 1 | 2 3`."""
    return " | ".join(sorted(" ".join(map(str, partitions)) for partitions in found.values()))


def fault(read: Sequence[WorkerLine], ends: Sequence[int]) -> str | None:
    """Return the reason why a run does not count; None if each partition was read once, to its end."""
    found = sorted((line.partitions[0], line.messages) for line in read)
    return None if found == list(enumerate(ends)) else f"read (partition, messages) {found} of {list(enumerate(ends))}"


def figures(read: Sequence[WorkerLine], workers_cores: float, broker_cores: float) -> Figures:
    seconds = max(line.last for line in read) - min(line.first for line in read)
    return {
        RATE: sum(line.messages for line in read) / seconds,
        "seconds": seconds,
        "workers_processors": workers_cores,
        "broker_processors": broker_cores,
    }


def table(results: Sequence[Result], notes: Sequence[str], load: float) -> Table:
    """Return the table. `notes` has the assignments."""
    return Table(
        title="sarameya run",
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=ratios(results, RATE, GOALS),
        ratio_means="more workers are faster",
        notes=notes,
        load=load,
    )
