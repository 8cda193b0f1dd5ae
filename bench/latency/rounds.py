"""The rounds: a member reads a topic of its own, while a producer sends to it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

import attrs
import trio

from bench.common.broker import running_kafka
from bench.common.machine import load
from bench.common.processes import cores, usage
from bench.common.tables import Table
from bench.latency.figures import COLUMNS, CPU, P99, fault, figures, table
from bench.latency.sending import Sending, Sent
from bench.members.clients import Contender, build
from bench.members.rounds import Ran, play
from bench.members.running import MemberError, open_member
from tests.integration.peers.running import ROOT
from tests.integration.real_kafka import RealKafka

PARTITIONS = 4
RATE = 1000
SIZE = 200
_WARM = 1000
"""So many messages, the first ones, are not counted."""
_SETTLE_SECONDS = 1.0
"""Once it has its partitions, a member gets so long to look for their offsets and to fetch."""
_TAIL_SECONDS = 0.5
"""How long after the last message was acknowledged it may come."""


def measure(contenders: Sequence[Contender], repeats: int, seconds: int) -> Iterator[Table]:
    """The one table. Raises GoError."""
    build()
    messages = _WARM + seconds * RATE
    with running_kafka() as kafka:

        async def run(contender: Contender, number: int) -> Ran:
            return await _run(kafka, contender, f"latency-{contender.name}-{number}", messages)

        # The first run would pay for what a broker's JVM, and the disk, do for the first time.
        trio.run(_run, kafka, contenders[0], "latency-warming", messages)
        [shown] = [column for column in COLUMNS if column.key == P99]
        results = play("latency", contenders, repeats, run, shown)
    yield table(results, load())


async def _run(kafka: RealKafka, contender: Contender, topic: str, messages: int) -> Ran:
    bootstrap = kafka.bootstrap_servers[0]
    await trio.to_thread.run_sync(kafka.create_topic, topic, PARTITIONS)
    async with open_member(contender.command(bootstrap, topic, topic, PARTITIONS, is_stamped=True)) as member:
        await member.assigned(PARTITIONS)
        await trio.sleep(_SETTLE_SECONDS)
        before = usage(member.pid)
        sent = await _send(Sending(bootstrap, topic, PARTITIONS, messages, RATE, SIZE))
        cpu = cores(before, usage(member.pid))
        await trio.sleep(_TAIL_SECONDS)
        done = await member.end()
    if (reason := fault(done, sent, messages, RATE)) is not None:
        raise MemberError(reason)
    return Ran([{**figures(done, sent, _WARM), CPU: cpu}], done.version)


async def _send(sending: Sending) -> Sent:
    command = [sys.executable, "-m", "bench.latency.producer", json.dumps(attrs.asdict(sending))]
    done = await trio.run_process(command, capture_stdout=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise MemberError(f"the producer ended with {done.returncode}")
    return Sent.of_json(done.stdout)
