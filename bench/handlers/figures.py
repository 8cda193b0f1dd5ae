"""Figures of handlers that wait and of the completion tracker, and the check of a run. Pure. Times are seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from bench.common.results import Figures, Result
from bench.common.tables import Column, Goal, Goals, Row, Table, checks, ratios
from bench.latency import figures as latency
from bench.latency.sending import SendTask, Sent
from bench.members.protocol import Line
from bench.slow_partition.figures import reading

PARTITIONS = 4
KEYS = 1000
PACE = 0.01
"""Seconds that a handler takes for each message."""
CONCURRENCY = 50
_STEADY = 0.6
"""Rate of the steady producer, as a part of what is possible."""

RATE = "messages_per_second"
PART = "part_of_possible"
CPU = "cpu_seconds_per_message"
COLUMNS = (
    Column(RATE, "messages/s"),
    Column(PART, "of the possible, %", scale=100),
    Column(CPU, "CPU, µs a message", scale=1e6),
    *(column for column in latency.COLUMNS if column.key in ("p50", latency.P99, "p999", "most")),
)

CLAIM = "claim"
CONCURRENTLY = "concurrently"
OVERHEAD = "concurrently - claim"
TRACKER = "tracker alone"
TRACKER_COLUMNS = (Column(CPU, "CPU, µs a message", scale=1e6, digits=2),)
TRACKER_GOALS: Goals = {
    (OVERHEAD, CPU): Goal(3e-6, at_most=True),
    (TRACKER, CPU): Goal(3e-6, at_most=True),
}


@attrs.frozen
class Case:
    """An order of messages, and what is possible with it."""

    ordering: str
    title: str
    at_once: int
    """Number of messages that can be handled at the same time."""

    @property
    def possible(self) -> float:
        """Messages per second, if nothing but the handlers took time."""
        return self.at_once / PACE

    @property
    def steady(self) -> float:
        """Messages per second of the steady producer."""
        return _STEADY * self.possible

    def lanes(self, task: SendTask) -> Sequence[int]:
        """Return a number for each message: messages with the same number must be handled in their order."""
        if self.ordering == "partition":
            return [sequence % task.partitions for sequence in range(task.messages)]
        return task.key_numbers() if self.ordering == "key" else range(task.messages)


CASES = (
    Case("partition", "in order by partition", PARTITIONS),
    Case("key", "in order by key", CONCURRENCY),
    Case("none", "in no order", CONCURRENCY),
)


def fault(done: Line, sent: Sent, task: SendTask, case: Case) -> str | None:
    """Return the reason why a run does not count; None if each message was handled once, and in its order."""
    reason = latency.fault(done, sent, task.messages, task.rate)
    return reason or _order_fault(done.sequences, case.lanes(task))


def _order_fault(sequences: Sequence[int], lanes: Sequence[int]) -> str | None:
    last: dict[int, int] = {}
    for sequence in sequences:
        lane = lanes[sequence]
        if sequence < last.get(lane, -1):
            return f"message {sequence} was handled after message {last[lane]}, which is behind it in its order"
        last[lane] = sequence
    return None


def backlog_figures(lines: Sequence[Line], first: int, messages: int, cpu_seconds: float) -> Figures:
    """Return the figures of a member that has handled a backlog.

    Args:
        lines: Reports of the member.
        first: Number of messages that it had handled when its CPU time was first read.
        messages: Number of messages of the backlog.
        cpu_seconds: CPU time since then.

    Raises:
        ValueError: The member was too fast for a rate.
    """
    if first >= messages:
        raise ValueError(f"all {messages} messages were handled before the first report")
    return {RATE: reading(lines, messages, math.inf).others, CPU: cpu_seconds / (messages - first)}


def table(case: Case, results: Sequence[Result], load: float) -> Table:
    """Return the table of one order."""
    return Table(
        title=case.title,
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=[ratio for key in (RATE, CPU, latency.P99) for ratio in ratios(results, key)],
        ratio_means="ours has more",
        notes=[f"{case.possible:,.0f} messages/s are possible; latencies at {case.steady:,.0f} messages/s"],
        load=load,
    )


def tracker_table(claim: Result, concurrently: Result, alone: Result, metadata_bytes: int, load: float) -> Table:
    """Return the table of the tracker's cost.

    Args:
        claim: Runs of the member that reads by `async for message in claim`.
        concurrently: Runs of the member that reads by `claim.concurrently`.
        alone: Runs of the loop.
        metadata_bytes: Size of the longest metadata that the loop has committed.
        load: Load of the machine.
    """
    overhead = Result(OVERHEAD, is_ours=True)
    if claim.counts and concurrently.counts:
        for less, more in zip(claim.numbers(CPU), concurrently.numbers(CPU), strict=True):
            overhead.add({CPU: more - less})
    else:
        overhead.add("a run has failed")
    results = [claim, concurrently, overhead, alone]
    return Table(
        title="marks in any order",
        columns=TRACKER_COLUMNS,
        rows=[Row.of(result, TRACKER_COLUMNS) for result in results],
        checks=checks(results, TRACKER_GOALS),
        notes=[f"{TRACKER}: up to {metadata_bytes} bytes of metadata in a commit"],
        load=load,
    )
