"""Cancellation at many steps of a cooperative rebalance: no member remains, no message is lost or read twice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio
from trio.testing import MockClock

from sarameya import Session, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import ClaimEnded, ClaimStarted, SessionEnded, SessionStarted
from tests.group.kit import Recorder, Running, committed, eventually, fill, orders, start_member
from tests.group.test_cancellation import CancelAtStep

RUNS = 60
"""Number of steps of each scenario at which a run is cancelled, evenly spread. All steps would take minutes."""


class OwnershipRecorder(Recorder):
    """A recorder that counts the partitions that were assigned and not yet revoked or lost."""

    def __init__(self) -> None:
        super().__init__()
        self.owned: Counter[TopicPartition] = Counter()

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self.owned.update(partitions)
        await trio.lowlevel.checkpoint()

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self.owned.subtract(partitions)
        await trio.lowlevel.checkpoint()

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self.owned.subtract(partitions)
        await trio.lowlevel.checkpoint()

    @property
    def owned_count(self) -> int:
        return sum(self.owned.values())


class Stage:
    """A cluster with two partitions, and members that come and go. The victim is the member to be cancelled."""

    def __init__(self, nursery: trio.Nursery, cluster: EmbeddedCluster, canceller: CancelAtStep) -> None:
        self.cluster = cluster
        self.nursery = nursery
        self.members: list[tuple[Running, OwnershipRecorder]] = []
        self._canceller = canceller

    async def start(self) -> tuple[Running, OwnershipRecorder]:
        handler = OwnershipRecorder()
        running = await start_member(
            self.nursery,
            self.cluster,
            handler,
            rebalance_strategies=("cooperative-sticky",),
            autocommit_interval=1000.0,
        )
        self.members.append((running, handler))
        return running, handler

    def aim(self, victim: Running) -> None:
        """Count steps from now on."""
        self._canceller.scope = victim.scope

    def fill(self, count: int) -> None:
        for partition in (0, 1):
            fill(self.cluster, count, partition)

    async def read_all(self) -> None:
        """Wait until the members together have read everything."""
        ends = sum(self.cluster.log("orders", partition).end_offset for partition in (0, 1))
        await eventually(lambda: sum(len(set(h.messages)) for _, h in self.members) >= ends)


async def victim_revokes(stage: Stage) -> Running:
    """Let the victim own both partitions, and then revoke one for another member. Return the victim."""
    victim, one = await stage.start()
    await one.until(lambda: "claim orders-1" in one.calls)
    stage.fill(5)
    await one.received(10)
    stage.aim(victim)
    _, two = await stage.start()
    stage.fill(5)
    await eventually(lambda: two.owned_count == 1 or victim.ended.is_set())
    await stage.read_all()
    return victim


async def victim_takes_over(stage: Stage) -> Running:
    """Let the victim own one partition, and then get that of a member that leaves. Return the victim."""
    victim, one = await stage.start()
    other, two = await stage.start()
    await eventually(lambda: one.owned_count == two.owned_count == 1)
    stage.fill(5)
    await stage.read_all()
    stage.aim(victim)
    await other.close()
    stage.fill(5)
    await eventually(lambda: one.owned_count == 2 or victim.ended.is_set())
    if not victim.ended.is_set():
        with trio.move_on_after(60):
            await stage.read_all()
    return victim


def run(scenario: Callable[[Stage], Awaitable[Running]], step: float) -> int:
    """Run one scenario, cancelled at `step`, and check the result. Return the number of steps."""
    canceller = CancelAtStep(step)

    async def main() -> int:
        async with orders(2) as cluster, trio.open_nursery() as nursery:
            with trio.fail_after(300):
                stage = Stage(nursery, cluster, canceller)
                victim = await scenario(stage)
                steps, canceller.scope = canceller.steps, None
                await victim.close()
                assert victim.error is None, f"cancelled at step {step}: {victim.error!r}"
                await stage.start()  # it reads the rest from the committed offsets
                await stage.read_all()
                for running, _ in stage.members:
                    await running.close()
                check(stage, step)
                return steps

    return trio.run(main, clock=MockClock(autojump_threshold=0), instruments=[canceller])


def check(stage: Stage, step: float) -> None:
    where = f"cancelled at step {step}"
    assert not stage.cluster.describe_group("g").members, where
    read = Counter((m.partition, m.offset) for _, handler in stage.members for m in handler.messages)
    assert read == Counter((p, offset) for p in (0, 1) for offset in range(10)), where
    assert committed(stage.cluster) == {"orders-0": 10, "orders-1": 10}, where
    for running, handler in stage.members:
        assert handler.calls.count("setup") == handler.calls.count("cleanup"), where
        assert not +handler.owned, where
        assert not -handler.owned, where
        assert len(running.seen(SessionStarted)) <= len(running.seen(SessionEnded)), where
        started = sorted(e.partition for e in running.seen(ClaimStarted))
        assert started == sorted(e.partition for e in running.seen(ClaimEnded)), where


@pytest.mark.parametrize("scenario", [victim_revokes, victim_takes_over])
def test_cancellation_in_a_rebalance_loses_and_repeats_nothing(
    scenario: Callable[[Stage], Awaitable[Running]],
) -> None:
    steps = run(scenario, math.inf)
    assert steps > 100
    for step in range(1, steps + 1, max(1, steps // RUNS)):
        run(scenario, step)
