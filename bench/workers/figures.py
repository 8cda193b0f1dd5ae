"""What so many workers have read together, and how fast. Pure."""

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
    return f"{workers} worker{'s' if workers > 1 else ''}"


GOALS: Goals = {(name(2), name(1)): Goal(1.0)}


def assignment(lines: Sequence[WorkerLine]) -> Assignment:
    """What each worker was assigned last."""
    return {line.pid: line.partitions for line in lines if line.event == "assigned"}


def is_shared_out(found: Assignment, workers: int, partitions: int) -> bool:
    """Whether so many workers have all partitions, each one once, and none has nothing."""
    assigned = sorted(partition for each in found.values() for partition in each)
    return len(found) == workers and all(found.values()) and assigned == list(range(partitions))


def assignment_text(found: Assignment) -> str:
    return " | ".join(sorted(" ".join(map(str, partitions)) for partitions in found.values()))


def fault(read: Sequence[WorkerLine], ends: Sequence[int]) -> str | None:
    """Why a run does not count; None where each partition was read once, to its end."""
    told = sorted((line.partitions[0], line.messages) for line in read)
    return None if told == list(enumerate(ends)) else f"read (partition, messages) {told} of {list(enumerate(ends))}"


def figures(read: Sequence[WorkerLine], workers_cores: float, broker_cores: float) -> Figures:
    seconds = max(line.last for line in read) - min(line.first for line in read)
    return {
        RATE: sum(line.messages for line in read) / seconds,
        "seconds": seconds,
        "workers_processors": workers_cores,
        "broker_processors": broker_cores,
    }


def table(results: Sequence[Result], notes: Sequence[str], load: float) -> Table:
    """`notes` tell who was assigned what."""
    return Table(
        title="sarameya run",
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=ratios(results, RATE, GOALS),
        ratio_means="more workers are faster",
        notes=notes,
        load=load,
    )
