"""The rounds: a member with nothing to read, then the same with all of a topic and a handler that is behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import trio

from bench.common.broker import running_kafka
from bench.common.filling import Contents, Filled, commit, fill
from bench.common.machine import load
from bench.common.presenting import say
from bench.common.processes import rss_bytes, usage
from bench.common.tables import Table
from bench.members.clients import Contender, build
from bench.members.rounds import Ran, play
from bench.members.running import open_member
from bench.members.telling import NEVER
from bench.memory.figures import COLUMNS, OVER, Base, figures, table
from tests.integration.real_kafka import RealKafka

SIZE = 1000
PACES = {"slow": 0.1, "stuck": NEVER}
"""What a handler takes for a message, in seconds."""
_SETTLE_SECONDS = 2.0
"""Once it has its partitions, a member with nothing to read gets so long to come to rest."""
_LOOK_SECONDS = 0.1

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
    contenders: Sequence[Contender]
    partitions: Sequence[int]
    """How many, each in its turn."""
    handlers: Sequence[str]
    """Of PACES."""
    repeats: int
    seconds: float
    """How long a member is behind."""
    messages: int
    """In each topic."""


def measure(plan: Plan) -> Iterator[Table]:
    """A table for each number of partitions and each handler. Raises GoError, FillingError."""
    build()
    with running_kafka() as kafka:
        for partitions in plan.partitions:
            topic = f"memory-{partitions}"
            say(f"{topic}: filling with {plan.messages} messages")
            filled = fill(kafka, topic, Contents(plan.messages, SIZE, partitions))
            bases: dict[str, Base] = {}
            for handler in plan.handlers:
                yield _measure(kafka, filled, plan, handler, bases)


def _measure(kafka: RealKafka, filled: Filled, plan: Plan, handler: str, bases: dict[str, Base]) -> Table:
    """`bases` has what was measured of the contenders already, by their names."""
    title = f"{filled.topic}-{handler}"

    async def run(contender: Contender, number: int) -> Ran:
        if contender.name not in bases:
            bases[contender.name] = await _base(kafka, filled, contender)
        return await _run(kafka, filled, plan, handler, contender, f"{title}-{contender.name}-{number}", bases)

    [shown] = [column for column in COLUMNS if column.key == OVER]
    contenders = [one for one in plan.contenders if one.is_ours or PACES[handler] != NEVER]
    results = play(title, contenders, plan.repeats, run, shown)
    budgets = {one.name: one.options[_BUDGET] for one in contenders if _BUDGET in one.options}
    return table(f"{len(filled.ends)} partition(s), {handler} handler", results, budgets, load())


async def _base(kafka: RealKafka, filled: Filled, contender: Contender) -> Base:
    group = f"{filled.topic}-base-{contender.name}"
    await trio.to_thread.run_sync(commit, kafka, group, filled.topic, list(enumerate(filled.ends)))
    command = contender.command(kafka.bootstrap_servers[0], filled.topic, group, len(filled.ends))
    async with open_member(command) as member:
        await member.assigned(len(filled.ends))
        await trio.sleep(_SETTLE_SECONDS)
        base = Base(member.told("loaded")[0].rss_bytes, rss_bytes(member.pid))
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
) -> Ran:
    partitions = len(filled.ends)
    command = contender.command(kafka.bootstrap_servers[0], filled.topic, group, partitions, pace=PACES[handler])
    async with open_member(command) as member:
        await member.assigned(partitions)
        looks = [usage(member.pid)]
        while looks[-1].at - looks[0].at < plan.seconds:
            await trio.sleep(_LOOK_SECONDS)
            looks.append(usage(member.pid))
        done = await member.end()
    return Ran([figures(bases[contender.name], looks, done.others)], done.version)
