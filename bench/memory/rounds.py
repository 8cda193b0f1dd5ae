"""The rounds: measures each member with nothing to read, then with a full topic and a handler that lags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import trio

from bench.common.broker import running_kafka
from bench.common.filling import Contents, Filled, commit, fill
from bench.common.machine import load
from bench.common.presenting import show_progress
from bench.common.processes import rss_bytes, usage
from bench.common.tables import Table
from bench.members.clients import Contender, build
from bench.members.protocol import NEVER
from bench.members.rounds import MemberOutcome, run_rounds
from bench.members.running import open_member
from bench.memory.figures import COLUMNS, OVER, Base, figures, table
from tests.integration.real_kafka import RealKafka

SIZE = 1000
PACES = {"slow": 0.1, "stuck": NEVER}
"""Seconds for which a handler sleeps for each message."""
_SETTLE_SECONDS = 2.0
"""Time for a member with nothing to read, once its partitions are assigned, to settle."""
_SAMPLE_SECONDS = 0.1

_BUDGET = "fetch_buffer_bytes"
CONTENDERS = (
    Contender("sarameya-64MiB", "sarameya", options={_BUDGET: 64 * 2**20}),
    Contender("sarameya-16MiB", "sarameya", options={_BUDGET: 16 * 2**20}),
    Contender("aiokafka", "aiokafka", "loop"),
    Contender("confluent-kafka", "confluent-kafka", "poll"),
    Contender("sarama", "sarama"),
    Contender("franz-go", "franz-go"),
)


@attrs.frozen
class Plan:
    """Measurements to make."""

    contenders: Sequence[Contender]
    partitions: Sequence[int]
    """Numbers of partitions, one topic for each."""
    handlers: Sequence[str]
    """Keys of PACES."""
    repeats: int
    seconds: float
    """Length of a run."""
    messages: int
    """Number of messages in each topic."""


def measure(plan: Plan) -> Iterator[Table]:
    """Yield a table for each number of partitions and each handler. Raises GoError, FillingError."""
    build()
    with running_kafka() as kafka:
        for partitions in plan.partitions:
            topic = f"memory-{partitions}"
            show_progress(f"{topic}: filling with {plan.messages} messages")
            filled = fill(kafka, topic, Contents(plan.messages, SIZE, partitions))
            bases: dict[str, Base] = {}
            for handler in plan.handlers:
                yield _measure(kafka, filled, plan, handler, bases)


def _measure(kafka: RealKafka, filled: Filled, plan: Plan, handler: str, bases: dict[str, Base]) -> Table:
    """Measure one table. `bases` has the bases measured so far, by the contenders' names."""
    title = f"{filled.topic}-{handler}"

    async def run(contender: Contender, number: int) -> MemberOutcome:
        if contender.name not in bases:
            bases[contender.name] = await _base(kafka, filled, contender)
        return await _run(kafka, filled, plan, handler, contender, f"{title}-{contender.name}-{number}", bases)

    [shown] = [column for column in COLUMNS if column.key == OVER]
    contenders = [each for each in plan.contenders if each.is_ours or PACES[handler] != NEVER]
    results = run_rounds(title, contenders, plan.repeats, run, shown)
    budgets = {each.name: each.options[_BUDGET] for each in contenders if _BUDGET in each.options}
    return table(f"{len(filled.ends)} partition(s), {handler} handler", results, budgets, load())


async def _base(kafka: RealKafka, filled: Filled, contender: Contender) -> Base:
    group = f"{filled.topic}-base-{contender.name}"
    await trio.to_thread.run_sync(commit, kafka, group, filled.topic, list(enumerate(filled.ends)))
    command = contender.command(kafka.bootstrap_servers[0], filled.topic, group, len(filled.ends))
    async with open_member(command) as member:
        await member.assigned(len(filled.ends))
        await trio.sleep(_SETTLE_SECONDS)
        base = Base(member.reports("loaded")[0].rss_bytes, rss_bytes(member.pid))
        await member.end()
    return base


async def _run(
    kafka: RealKafka,
    filled: Filled,
    plan: Plan,
    handler: str,
    contender: Contender,
    group: str,
    bases: dict[str, Base],
) -> MemberOutcome:
    partitions = len(filled.ends)
    command = contender.command(kafka.bootstrap_servers[0], filled.topic, group, partitions, pace=PACES[handler])
    async with open_member(command) as member:
        await member.assigned(partitions)
        samples = [usage(member.pid)]
        while samples[-1].at - samples[0].at < plan.seconds:
            await trio.sleep(_SAMPLE_SECONDS)
            samples.append(usage(member.pid))
        done = await member.end()
    return MemberOutcome([figures(bases[contender.name], samples, done.others)], done.version)
