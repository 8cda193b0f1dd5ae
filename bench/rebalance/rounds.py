"""The rounds: each contender has a group of two members, which a third one joins and leaves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

import trio

from bench.common.broker import running_kafka
from bench.common.machine import load
from bench.common.presenting import show_progress
from bench.common.results import Result
from bench.common.tables import Table
from bench.rebalance.contenders import Contender, commands
from bench.rebalance.figures import JOINING, Cost, figures, first_message, longest_silence, table, taken_over
from tests.integration.peers.lines import Line
from tests.integration.peers.running import Command, Peer
from tests.integration.peers.stage import Owned, Stage, open_stage

PARTITIONS = 6
RATE = 600.0
"""Messages per second: a hundred for each partition, so that a pause is measured to within 10 ms."""
OPTIONS = {"session_timeout": 10.0, "heartbeat_interval": 3.0}

_LOAD_SECONDS = 1.5
"""Time for a program to load, before it creates its consumer."""
_STEADY_SECONDS = 2.0
"""Least time without a change before each change."""
_TAIL_SECONDS = 0.5
"""Time for which members are observed after the group has settled."""


def measure(contenders: Iterable[Contender], rounds: int) -> Iterator[Table]:
    """Yield the only table. Raises GoError."""
    programs = commands()
    results = []
    with running_kafka() as kafka:
        for number, contender in enumerate(contenders):
            topic = kafka.create_topic(f"rebalance-{number}", PARTITIONS)
            server = kafka.bootstrap_servers[0]
            result = Result(str(contender), contender.is_ours)
            results.append(result)
            try:
                costs = trio.run(_measure, contender, server, topic, programs, rounds)
            except Exception as error:  # noqa: BLE001  after any error the contender has failed
                result.add(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}")
                show_progress(f"{contender}: failed")
                continue
            for cost in costs:
                result.add(figures(*cost))
            show_progress(f"{contender}: third's first message after {result.spread(JOINING).median:.3f} s")
    yield table(results, load())


async def _measure(
    contender: Contender, bootstrap: str, topic: str, programs: Mapping[str, Command], rounds: int
) -> list[tuple[Cost, Cost]]:
    """Return the cost of joining and of leaving, for each round."""
    costs = []
    async with open_stage(bootstrap, topic, PARTITIONS, group=topic, rate=RATE, commands=programs) as stage:
        for _ in range(2):
            await _start(stage, contender)
        for number in range(rounds):
            # All members start their heartbeats when the group settles: this spreads the changes over one interval.
            delay = OPTIONS["heartbeat_interval"] * (number + 0.5) / rounds
            joining, third = await _join(stage, contender, delay)
            costs.append((joining, await _leave(stage, third, delay)))
    return costs


async def _start(stage: Stage, contender: Contender) -> Peer:
    start_at = time.time() + _LOAD_SECONDS
    return await stage.start(contender.kind, contender.strategy, start_at=start_at, **OPTIONS)


async def _join(stage: Stage, contender: Contender, delay: float) -> tuple[Cost, Peer]:
    before = await _quiet(stage, delay)
    third = await _start(stage, contender)
    after = await stage.settled()
    await trio.sleep(_TAIL_SECONDS)
    begin = third.reports("starting")[0].at
    return _cost(stage, before, after, begin, first_message(third.lines, begin)), third


async def _leave(stage: Stage, third: Peer, delay: float) -> Cost:
    before = await _quiet(stage, delay)
    await third.stop()
    after = await stage.settled()
    await trio.sleep(_TAIL_SECONDS)
    begin = third.reports("leaving")[0].at
    new_owners = [line for peer in stage.peers.live for line in peer.lines]
    return _cost(stage, before, after, begin, taken_over(new_owners, before[third.client_id], begin))


async def _quiet(stage: Stage, delay: float) -> Owned:
    """Wait until the group has been steady for a while, and return the owned partitions."""
    await stage.settled()
    await trio.sleep(_STEADY_SECONDS + delay)
    return await stage.settled()


def _cost(stage: Stage, before: Owned, after: Owned, begin: float, wait: float) -> Cost:
    lines: list[Line] = [line for peer in stage.peers.all for line in peer.lines]
    kept = {partition for member, owned in before.items() for partition in owned & after.get(member, set())}
    return Cost(
        wait,
        pause=longest_silence(lines, kept, begin, time.time()),
        steady=longest_silence(lines, kept, begin - _STEADY_SECONDS, begin),
    )
