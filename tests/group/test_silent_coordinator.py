"""Joins and syncs that the coordinator holds for long, or that are lost while the connection stays open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, Config, ConsumerGroup, Message, Session
from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.faults import Half
from sarameya.observe import MembershipChanged, SessionEnding
from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, deadline, eventually, fill, orders, start_member
from tests.group.test_cooperative import Partitions, produce_for, start

T = TypeVar("T")


class ReadTimes(Partitions):
    """A recorder of the times at which it first and last read each partition."""

    def __init__(self) -> None:
        super().__init__(self.note)
        self.first_read: dict[int, float] = {}
        self.last_read: dict[int, float] = {}

    async def note(self, session: Session, claim: Claim, message: Message) -> None:
        self.first_read.setdefault(message.partition, trio.current_time())
        self.last_read[message.partition] = trio.current_time()


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("half", ["request", "answer"])
@pytest.mark.parametrize("api", [Api.JOIN_GROUP, Api.SYNC_GROUP])
async def test_lost_join_or_sync_keeps_the_membership(
    autojump_clock: MockClock, api: Api, half: Half, autocommit: bool
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = ReadTimes(), ReadTimes()
        first = await start(nursery, cluster, one, client_id="one", autocommit=autocommit)
        await one.until(lambda: one.claims == (0, 1))
        nursery.start_soon(produce_for, cluster, 100.0, 2)
        await trio.sleep(5)
        cluster.drop_next(api, 1, half=half, hang_up=False, client_id="one")
        await start(nursery, cluster, two, client_id="two", autocommit=autocommit)
        await two.until(lambda: two.claims != ())
        assert len(two.claims) == 1
        await trio.sleep(80)
        assert [e for e in first.seen(MembershipChanged) if e.after == "LOST"] == []
        assert all(one.last_read[partition] <= began for partition, began in two.first_read.items()), "both read it"


async def test_removed_member_stops_within_a_session_timeout(autojump_clock: MockClock) -> None:
    """Several syncs are lost, until the group has removed the member."""
    async with orders(2) as cluster, deadline() as nursery:
        one, two = ReadTimes(), ReadTimes()
        await start(nursery, cluster, one, client_id="one", autocommit=False)
        await one.until(lambda: one.claims == (0, 1))
        nursery.start_soon(produce_for, cluster, 100.0, 2)
        await trio.sleep(5)
        cluster.drop_next(Api.SYNC_GROUP, 3, half="request", hang_up=False, client_id="one")
        await start(nursery, cluster, two, client_id="two", autocommit=False)
        await two.until(lambda: two.claims == (0, 1))
        assert "lost 0 1" not in one.calls
        with trio.fail_after(10.0):
            await one.until(lambda: "lost 0 1" in one.calls)


async def start_slow_leader(
    nursery: trio.Nursery, cluster: EmbeddedCluster, handler: Recorder, seconds: float, **options: Any
) -> None:
    """Start a member whose assignor takes `seconds`."""

    async def slowly(function: Callable[[], T], /) -> T:
        await trio.sleep(seconds)
        return function()

    async def run() -> None:
        config = Config(offset_initial="oldest", **options)
        async with ConsumerGroup(
            cluster.bootstrap_servers, "g", config, transport=cluster.transport, run_sync=slowly
        ) as group:
            await group.consume(["orders"], handler)

    nursery.start_soon(run)
    await eventually(lambda: len(cluster.describe_group("g").members) == 1)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_slow_leader_fails_no_waiting_member(autojump_clock: MockClock, strategy: str) -> None:
    options = {"rebalance_strategies": (strategy,), "retry_max_attempts": 2}
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 5, partition=0)
        fill(cluster, 5, partition=1)
        one, two = Partitions(), Partitions()
        await start_slow_leader(nursery, cluster, one, 40.0, **options)
        second = await start_member(nursery, cluster, two, **options)
        await two.until(lambda: len(two.claims) == 1)
        await two.received(5)
        assert second.error is None
        assert [e for e in second.seen(MembershipChanged) if e.after == "LOST"] == []


async def test_members_joining_in_a_row_fail_no_waiting_member(
    autojump_clock: MockClock,
) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        await start_slow_leader(nursery, cluster, Recorder(), 2.5, retry_max_attempts=4)
        members = []
        for _ in range(30):
            await trio.sleep(0.5)
            members.append(await start_member(nursery, cluster, Recorder(), retry_max_attempts=4))
        await trio.sleep(60)
        assert [repr(member.error) for member in members if member.error is not None] == []


async def test_deadline_is_kept_after_a_late_sync_response(autojump_clock: MockClock) -> None:
    """The group is stable, and starts the next rebalance, before the member receives its sync response."""
    options = {"rebalance_timeout": 20.0, "rebalance_margin": 1.0, "session_timeout": 30.0}
    async with orders(1) as cluster, deadline() as nursery:

        class Busy(Recorder):
            async def consume_claim(self, session: Session, claim: Claim) -> None:
                self._note("claim")
                await trio.sleep_forever()

        cluster.delay_next(Api.SYNC_GROUP, 8.0, 1, client_id="one")
        cluster.delay_next(Api.HEARTBEAT, 0.3, 1, client_id="one")
        first = await start_member(nursery, cluster, Busy(), client_id="one", **options)
        await eventually(lambda: cluster.describe_group("g").state.name == "STABLE")
        two = Recorder()
        await start_member(nursery, cluster, two, **options)
        await two.until(lambda: bool(two.sessions))
        await trio.sleep(30)
        assert [e for e in first.seen(MembershipChanged) if e.after == "LOST"] == []
        assert [e for e in first.seen(SessionEnding) if e.lost] == []
