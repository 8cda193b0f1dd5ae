"""The rounds: each contender reads the three partitions alone, then beside the slow one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import trio

from bench.common.broker import running_kafka
from bench.common.filling import Contents, commit, fill
from bench.common.machine import load
from bench.common.presenting import show_progress
from bench.common.tables import Table
from bench.members.clients import Contender, build
from bench.members.rounds import MemberOutcome, run_rounds
from bench.members.running import READY_SECONDS, MemberError, open_member
from bench.slow_partition.figures import COLUMNS, LOST, Reading, figures, has_read, reading, table
from tests.integration.real_kafka import RealKafka

PACE = 0.05
"""Seconds that the slow handler takes for each message."""
SIZE = 200
PARTITIONS = 4
_SLOW = 3
"""Number of the slow partition."""
_TOPIC = "slow-partition"
_REPORT_SECONDS = 0.02

CONTENDERS = (
    Contender("sarameya", "sarameya"),
    Contender("aiokafka-loop", "aiokafka", "loop"),
    Contender("aiokafka-tasks", "aiokafka", "tasks"),
    Contender("confluent-loop", "confluent-kafka", "consume"),
    Contender("confluent-threads", "confluent-kafka", "threads"),
    Contender("sarama", "sarama"),
)


@attrs.frozen
class Plan:
    """Measurements to make."""

    contenders: Sequence[Contender]
    repeats: int
    seconds: float
    """Length of a run."""
    messages: int
    """Number of messages in each partition."""


def measure(plan: Plan) -> Iterator[Table]:
    """Yield the only table. Raises GoError, FillingError."""
    build()
    with running_kafka() as kafka:
        show_progress(f"filling with {PARTITIONS * plan.messages} messages")
        ends = fill(kafka, _TOPIC, Contents(PARTITIONS * plan.messages, SIZE, PARTITIONS)).ends

        async def run(contender: Contender, number: int) -> MemberOutcome:
            group = f"{contender.name}-{number}"
            await trio.to_thread.run_sync(commit, kafka, f"{group}-alone", _TOPIC, [(_SLOW, ends[_SLOW])])
            alone, version = await _run(kafka, contender, f"{group}-alone", plan)
            beside, _ = await _run(kafka, contender, f"{group}-beside", plan)
            return MemberOutcome([figures(alone, beside)], version)

        [shown] = [column for column in COLUMNS if column.key == LOST]
        results = run_rounds("slow-partition", plan.contenders, plan.repeats, run, shown)
    yield table(results, load())


async def _run(kafka: RealKafka, contender: Contender, group: str, plan: Plan) -> tuple[Reading, str]:
    """Run one member. Return its rates, and the version of its client."""
    messages = (PARTITIONS - 1) * plan.messages
    command = contender.command(
        kafka.bootstrap_servers[0],
        _TOPIC,
        group,
        PARTITIONS,
        slow_partition=_SLOW,
        slow_pace=PACE,
        report_seconds=_REPORT_SECONDS,
    )
    async with open_member(command) as member:
        await member.until(
            lambda: has_read(member.lines, messages, plan.seconds), "enough messages", READY_SECONDS + plan.seconds
        )
        done = await member.end()
    try:
        return reading(member.lines, messages, plan.seconds), done.version
    except ValueError as error:
        raise MemberError(str(error)) from error
