"""The rounds: each member reads a topic of its own, while a producer sends to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import trio

from bench.common.broker import running_kafka
from bench.common.machine import load
from bench.common.processes import cores, usage
from bench.common.tables import Table
from bench.latency.figures import COLUMNS, CPU, P99, fault, figures, table
from bench.latency.sending import SendTask, send
from bench.members.clients import Contender, build
from bench.members.rounds import MemberOutcome, run_rounds
from bench.members.running import MemberError, open_member
from tests.integration.real_kafka import RealKafka

PARTITIONS = 4
RATE = 1000
SIZE = 200
_WARM = 1000
"""Number of messages at the start that are not counted."""
_SETTLE_SECONDS = 1.0
"""Time for a member, once its partitions are assigned, to look up their offsets and to fetch."""
_TAIL_SECONDS = 0.5
"""Time for the last message to arrive, after its acknowledgement."""


def measure(contenders: Sequence[Contender], repeats: int, seconds: int) -> Iterator[Table]:
    """Yield the only table. Raises GoError."""
    build()
    messages = _WARM + seconds * RATE
    with running_kafka() as kafka:

        async def run(contender: Contender, number: int) -> MemberOutcome:
            return await _run(kafka, contender, f"latency-{contender.name}-{number}", messages)

        # The first run warms up the broker's JVM and the disk. It is not counted.
        trio.run(_run, kafka, contenders[0], "latency-warming", messages)
        [shown] = [column for column in COLUMNS if column.key == P99]
        results = run_rounds("latency", contenders, repeats, run, shown)
    yield table(results, load())


async def _run(kafka: RealKafka, contender: Contender, topic: str, messages: int) -> MemberOutcome:
    bootstrap = kafka.bootstrap_servers[0]
    await trio.to_thread.run_sync(kafka.create_topic, topic, PARTITIONS)
    async with open_member(contender.command(bootstrap, topic, topic, PARTITIONS, is_stamped=True)) as member:
        await member.assigned(PARTITIONS)
        await trio.sleep(_SETTLE_SECONDS)
        before = usage(member.pid)
        sent = await send(SendTask(bootstrap, topic, PARTITIONS, messages, RATE, SIZE))
        cpu = cores(before, usage(member.pid))
        await trio.sleep(_TAIL_SECONDS)
        done = await member.end()
    if (reason := fault(done, sent, messages, RATE)) is not None:
        raise MemberError(reason)
    return MemberOutcome([{**figures(done, sent, _WARM), CPU: cpu}], done.version)
