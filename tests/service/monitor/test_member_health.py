"""Health of a real member whose brokers stop responding, with an embedded cluster in virtual time."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from sarameya import TopicPartition
from sarameya.protocol.versions import Api
from sarameya.service.monitor.health import Health, health
from sarameya.service.monitor.members import WorkerStatus
from sarameya.service.monitor.progress_tracker import ProgressTracker
from sarameya.telemetry.snapshot import MemberSnapshot
from tests.group.kit import Recorder, Running, committed, deadline, fill, orders, start_member

STALL = 60.0
COORDINATOR, LEADER = 2, 1
"""Ids of two of the three brokers: the group's coordinator and the partition's leader, to freeze either one alone."""


class Watch:
    """Checks a member each second, as a status board does."""

    def __init__(self, member: Running) -> None:
        self._member = member
        self._progress = ProgressTracker()

    def check(self) -> Health:
        now, snapshot = trio.current_time(), MemberSnapshot.of(self._member.group)
        self._progress.update([snapshot], now)
        return health([WorkerStatus(worker=1, snapshot=snapshot)], self._progress, now, stall_after=STALL)

    async def ready_for(self, seconds: int) -> None:
        for _ in range(seconds):
            assert self.check().is_ready, self.check()
            await trio.sleep(1)

    async def until_not_ready(self) -> tuple[float, str]:
        """Return the seconds until the member is not ready, and the first reason."""
        started = trio.current_time()
        while (found := self.check()).is_ready:
            await trio.sleep(1)
        return trio.current_time() - started, found.not_ready[0]

    async def until_ready(self) -> None:
        while not self.check().is_ready:
            await trio.sleep(1)


async def test_member_with_a_frozen_coordinator_is_not_ready(
    autojump_clock: MockClock,
) -> None:
    """The member reads nothing meanwhile, so neither records nor marks nor commits reveal the frozen broker."""
    async with orders(1, brokers=3) as cluster, deadline(3000) as nursery:
        cluster.move_leader("orders", 0, LEADER)
        cluster.move_coordinator("g", COORDINATOR)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        fill(cluster, 3)
        await handler.received(3)
        watch = Watch(member)
        await watch.ready_for(200)
        cluster.freeze_broker(COORDINATOR)
        after, why = await watch.until_not_ready()
        assert 10 - 3 <= after <= 10 + 1, "the session timeout, counted from the last heartbeat with a response"
        assert why.startswith("the coordinator has not answered for 1")
        assert member.group.status().state == "STABLE", "the state that the member itself knows"
        await trio.sleep(300)
        assert not watch.check().is_ready
        cluster.unfreeze_broker(COORDINATOR)
        with trio.fail_after(60):
            await watch.until_ready()
        (described,) = cluster.describe_group("g").members
        assert described.member_id == member.group.status().member_id
        await watch.ready_for(100)
        await member.close()


async def test_failing_commit_is_named_while_marks_move(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline(3000) as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, autocommit_interval=1.0)
        fill(cluster, 3)
        await handler.received(3)
        watch = Watch(member)
        await watch.ready_for(10)
        cluster.drop_next(Api.OFFSET_COMMIT, None, half="request")

        async def produce() -> None:
            while True:
                fill(cluster, 1)
                await trio.sleep(1)

        nursery.start_soon(produce)
        started = trio.current_time()
        after, why = await watch.until_not_ready()
        assert STALL < after <= STALL + 3
        assert why.startswith("orders-0: no commit succeeds, for 6")
        assert committed(cluster)["orders-0"] == 3
        assert len(handler.messages) > trio.current_time() - started - 3, "the member stopped reading"
        cluster.clear_faults()
        await watch.until_ready()
        await watch.ready_for(100)
        nursery.cancel_scope.cancel()


async def test_partition_with_a_frozen_leader_is_not_ready(autojump_clock: MockClock) -> None:
    async with orders(2, brokers=3) as cluster, deadline(3000) as nursery:
        cluster.move_leader("orders", 0, LEADER)
        cluster.move_leader("orders", 1, 0)
        cluster.move_coordinator("g", COORDINATOR)
        member = await start_member(nursery, cluster, Recorder())
        await trio.sleep(5)
        watch = Watch(member)
        await watch.ready_for(200)
        cluster.freeze_broker(LEADER)
        after, why = await watch.until_not_ready()
        assert STALL <= after <= STALL + 2, "counted from the last, empty response of the leader"
        assert why.startswith("orders-0: no progress for 6")
        assert all(line.startswith("orders-0: ") for line in watch.check().not_ready)
        cluster.unfreeze_broker(LEADER)
        await watch.until_ready()
        fill(cluster, 1)
        await watch.ready_for(100)
        assert member.group.status().partitions[0].partition == TopicPartition("orders", 0)
        assert member.group.status().partitions[0].position == 1
        await member.close()
