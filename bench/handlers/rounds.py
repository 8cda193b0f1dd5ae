"""The rounds: each member handles a backlog, then the messages of a steady producer; and the cost of the tracker."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs
import trio

from bench.common.broker import running_kafka
from bench.common.filling import Contents, fill
from bench.common.machine import load
from bench.common.processes import cpu_seconds
from bench.common.results import Figures, Result
from bench.common.tables import Table
from bench.handlers.figures import (
    CASES,
    CLAIM,
    COLUMNS,
    CONCURRENCY,
    CONCURRENTLY,
    CPU,
    KEYS,
    PACE,
    PART,
    PARTITIONS,
    RATE,
    TRACKER,
    TRACKER_COLUMNS,
    Case,
    backlog_figures,
    fault,
    table,
    tracker_table,
)
from bench.handlers.tracker import track
from bench.latency.figures import figures
from bench.latency.sending import SendTask, Sent, send
from bench.members.clients import OURS, PARALLEL_CONSUMER, Contender
from bench.members.protocol import Line
from bench.members.rounds import MemberOutcome, run_rounds
from bench.members.running import READY_SECONDS, Member, MemberError, open_member
from bench.slow_partition.figures import has_read
from tests.integration.real_kafka import RealKafka

SIZE = 200
_WARM_SECONDS = 5
"""Seconds at the start of the steady messages that are not counted."""
_SETTLE_SECONDS = 1.0
"""Time for a member, once its partitions are assigned, to look up their offsets and to fetch."""
_TAIL_SECONDS = 0.5
"""Time in which a message that is handled twice would be seen."""
_REPORT_SECONDS = 0.02
_STEADY_REPORT_SECONDS = 1.0
"""Interval of reports while latencies are measured. A thread that reports more often takes the interpreter's lock away
from a busy event loop: with 20 ms the messages of a member in Python were late by more than a second."""
_SLOWEST = 0.1
"""A member that handles a smaller part of what is possible has failed."""

CONTENDERS = (
    Contender("sarameya", OURS, "messages", commits=True),
    Contender("parallel-consumer", PARALLEL_CONSUMER, commits=True),
    Contender("aiokafka-pool", "aiokafka", "pool", commits=True),
)
_TRACKED = (
    Contender(CLAIM, OURS, commits=True),
    Contender(CONCURRENTLY, OURS, "concurrently", commits=True),
)


@attrs.frozen
class Plan:
    """Measurements to make."""

    contenders: Sequence[Contender]
    repeats: int
    seconds: int
    """Length of a backlog, if it is handled as fast as possible, and of the steady messages that count."""
    tracked: int
    """Number of messages for the cost of the tracker."""


def measure(plan: Plan) -> Iterator[Table]:
    """Yield a table for each order, and that of the tracker if ours takes part. Raises JarsError, FillingError."""
    with running_kafka() as kafka:
        for case in CASES:
            yield table(case, _measure(kafka, case, plan), load())
        if any(contender.is_ours for contender in plan.contenders):
            yield _measure_tracker(kafka, plan)


def _measure(kafka: RealKafka, case: Case, plan: Plan) -> list[Result]:
    bootstrap = kafka.bootstrap_servers[0]
    backlog = f"handlers-{case.ordering}"
    kafka.create_topic(backlog, PARTITIONS)
    full = SendTask(bootstrap, backlog, PARTITIONS, round(case.possible * plan.seconds), 0, SIZE, KEYS)
    sent = trio.run(send, full)
    timeout = READY_SECONDS + plan.seconds / _SLOWEST

    def command(contender: Contender, topic: str, group: str, report_seconds: float) -> list[str]:
        return contender.command(
            bootstrap,
            topic,
            group,
            PARTITIONS,
            ordering=case.ordering,
            concurrency=CONCURRENCY,
            pace=PACE,
            is_stamped=True,
            report_seconds=report_seconds,
        )

    async def run(contender: Contender, number: int) -> MemberOutcome:
        group = f"{backlog}-{contender.name}-{number}"
        done, of_backlog = await _read_backlog(
            command(contender, backlog, group, _REPORT_SECONDS), full.messages, timeout
        )
        _check(done, sent, full, case)
        messages = round(case.steady * (_WARM_SECONDS + plan.seconds))
        steady = SendTask(bootstrap, group, PARTITIONS, messages, case.steady, SIZE, KEYS)
        await trio.to_thread.run_sync(kafka.create_topic, group, PARTITIONS)
        done, sent_steadily = await _receive(
            command(contender, group, f"{group}-steady", _STEADY_REPORT_SECONDS), steady, timeout
        )
        _check(done, sent_steadily, steady, case)
        of_steady = figures(done, sent_steadily, round(case.steady * _WARM_SECONDS))
        part = of_backlog[RATE] / case.possible
        return MemberOutcome([{**of_backlog, **of_steady, PART: part}], done.version)

    [shown] = [column for column in COLUMNS if column.key == RATE]
    return run_rounds(case.title, plan.contenders, plan.repeats, run, shown)


def _measure_tracker(kafka: RealKafka, plan: Plan) -> Table:
    filled = fill(kafka, "handlers-tracker", Contents(plan.tracked, SIZE, PARTITIONS, has_keys=True))

    async def run(contender: Contender, number: int) -> MemberOutcome:
        group = f"{filled.topic}-{contender.name}-{number}"
        command = contender.command(
            kafka.bootstrap_servers[0],
            filled.topic,
            group,
            PARTITIONS,
            concurrency=CONCURRENCY,
            report_seconds=_REPORT_SECONDS,
        )
        done, of_backlog = await _read_backlog(command, plan.tracked, READY_SECONDS)
        if done.others != plan.tracked:
            raise MemberError(f"read {done.others} messages of {plan.tracked}")
        return MemberOutcome([of_backlog], done.version)

    claim, concurrently = run_rounds("tracker", _TRACKED, plan.repeats, run, TRACKER_COLUMNS[0])
    alone = Result(TRACKER, is_ours=True)
    longest = 0
    for _ in range(plan.repeats):
        seconds, longest = track(plan.tracked)
        alone.add({CPU: seconds})
    return tracker_table(claim, concurrently, alone, longest, load())


async def _read_backlog(command: Sequence[str], messages: int, timeout: float) -> tuple[Line, Figures]:
    """Run a member until it has read a full topic. Return its last report, and its figures."""
    async with open_member(command) as member:
        await _until_read(member, 1, READY_SECONDS)
        before, first = cpu_seconds(member.pid), max(line.others for line in member.lines)
        await _until_read(member, messages, timeout)
        used = cpu_seconds(member.pid) - before
        await trio.sleep(_TAIL_SECONDS)
        done = await member.end()
    try:
        return done, backlog_figures(member.lines, first, messages, used)
    except ValueError as error:
        raise MemberError(str(error)) from error


async def _receive(command: Sequence[str], task: SendTask, timeout: float) -> tuple[Line, Sent]:
    """Run a member while messages are sent to it. Return its last report, and the producer's."""
    async with open_member(command) as member:
        await member.assigned(PARTITIONS)
        await trio.sleep(_SETTLE_SECONDS)
        sent = await send(task)
        await _until_read(member, task.messages, timeout)
        await trio.sleep(_TAIL_SECONDS)
        return await member.end(), sent


async def _until_read(member: Member, messages: int, timeout: float) -> None:
    await member.until(lambda: has_read(member.lines, messages, math.inf), f"message {messages}", timeout)


def _check(done: Line, sent: Sent, task: SendTask, case: Case) -> None:
    """Raise MemberError if a run does not count."""
    if (reason := fault(done, sent, task, case)) is not None:
        raise MemberError(reason)
