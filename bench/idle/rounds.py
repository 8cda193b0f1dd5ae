"""The rounds: assigns quiet partitions to a member, waits until it has settled, and measures it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import attrs
import trio

from bench.common.broker import running_kafka
from bench.common.machine import load
from bench.common.processes import usage
from bench.common.tables import Table
from bench.idle.figures import COLUMNS, CPU, figures, table
from bench.idle.proxy import HOST, Proxy
from bench.members.clients import JAVA, Contender, build
from bench.members.rounds import MemberOutcome, run_rounds
from bench.members.running import READY_SECONDS, Member, open_member
from tests.integration.real_kafka import KAFKA_VERSION, RealKafka

_SETTLE_SECONDS = 4.0
"""Time for a member, once its partitions are assigned, to look up their offsets and to settle."""

CONTENDERS = (
    Contender("sarameya", "sarameya", commits=True),
    Contender("aiokafka", "aiokafka", "loop", commits=True),
    Contender("confluent-kafka", "confluent-kafka", "poll", commits=True),
    Contender("sarama", "sarama", commits=True),
    Contender("franz-go", "franz-go", commits=True),
    Contender("java", JAVA, commits=True),
)


@attrs.frozen
class Plan:
    """Measurements to make."""

    contenders: Sequence[Contender]
    partitions: Sequence[int]
    """Numbers of partitions, one topic for each."""
    periods: int
    """Number of periods in which a member is measured."""
    seconds: float
    """Length of a period."""


def measure(plan: Plan) -> Iterator[Table]:
    """Yield a table for each number of partitions. Raises GoError."""
    build()
    [shown] = [column for column in COLUMNS if column.key == CPU]
    with running_kafka(proxied=True) as kafka:
        for partitions in plan.partitions:
            topic = kafka.create_topic(f"idle-{partitions}", partitions)
            results = run_rounds(topic, plan.contenders, 1, partial(_run, kafka, topic, partitions, plan), shown)
            yield table(partitions, results, load())


async def _run(
    kafka: RealKafka, topic: str, partitions: int, plan: Plan, contender: Contender, _: int
) -> MemberOutcome:
    assert kafka.nodes[0].proxy is not None
    target, port = kafka.nodes[0].proxy
    proxy = Proxy(port, target)
    group = f"{topic}-{contender.name}"
    async with trio.open_nursery() as nursery:
        await nursery.start(proxy.serve)
        async with open_member(contender.command(f"{HOST}:{port}", topic, group, partitions)) as member:
            if contender.client == JAVA:
                await trio.to_thread.run_sync(kafka.await_members, group, 1, READY_SECONDS)
            else:
                await member.assigned(partitions)
            await trio.sleep(_SETTLE_SECONDS)
            periods = [await _measure(member, proxy, plan.seconds) for _ in range(plan.periods)]
            version = KAFKA_VERSION if contender.client == JAVA else (await member.end()).version
        nursery.cancel_scope.cancel()
    return MemberOutcome(periods, version)


async def _measure(member: Member, proxy: Proxy, seconds: float) -> dict[str, float]:
    before, passed = usage(member.pid), proxy.traffic
    await trio.sleep(seconds)
    return dict(figures(before, usage(member.pid), proxy.traffic - passed))
