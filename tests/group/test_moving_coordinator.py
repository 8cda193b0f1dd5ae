"""The coordinator moves during each kind of request: no message and no session is lost."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya.observe import CoordinatorFound, SessionEnded, SessionEnding
from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, Running, committed, deadline, eventually, fill, orders, start_member

HELD = 2.0
"""Seconds for which the coordinator holds a request, or its response, while it moves."""


@pytest.mark.parametrize("half", ["request", "answer"])
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("api", [Api.JOIN_GROUP, Api.SYNC_GROUP])
async def test_coordinator_moving_during_a_join_or_sync_is_found(
    autojump_clock: MockClock, api: Api, assignor: str, half: str
) -> None:
    async with orders(2, brokers=3) as cluster, deadline() as nursery:
        fill(cluster, 3)
        one, two = Recorder(), Recorder()
        first = await start_member(nursery, cluster, one, rebalance_strategies=(assignor,))
        await one.received(3)
        await trio.sleep(5)
        cluster.delay_next(api, HELD, half=half)  # type: ignore[arg-type]
        second = await start_member(nursery, cluster, two, rebalance_strategies=(assignor,))
        await trio.sleep(HELD / 2)
        cluster.move_coordinator("g", _next_broker(first))
        await eventually(lambda: bool(two.sessions))
        await eventually(
            lambda: sorted(p for r in (one, two) for p in r.sessions[-1].claims.get("orders", ())) == [0, 1]
        )
        for partition in range(2):
            fill(cluster, 3, partition)
        await eventually(lambda: committed(cluster) == {"orders-0": 6, "orders-1": 3})
        assert len(one.messages) + len(two.messages) == 9, "each message once: what was read had been committed"
        assert first.error is None
        assert second.error is None


@pytest.mark.parametrize("half", ["request", "answer"])
async def test_coordinator_moving_during_a_heartbeat_keeps_the_session(autojump_clock: MockClock, half: str) -> None:
    async with orders(1, brokers=3) as cluster, deadline() as nursery:
        one = Recorder()
        member = await start_member(nursery, cluster, one)
        await one.until(lambda: bool(one.sessions))
        for _ in range(5):
            cluster.delay_next(Api.HEARTBEAT, HELD, half=half)  # type: ignore[arg-type]
            await eventually(lambda: cluster.faults == ())
            cluster.move_coordinator("g", _next_broker(member))
            await trio.sleep(10)
        assert member.seen(SessionEnding) == []
        fill(cluster, 2)
        await one.received(2)


@pytest.mark.parametrize("half", ["request", "answer"])
async def test_coordinator_moving_during_a_commit_accepts_it(autojump_clock: MockClock, half: str) -> None:
    async with orders(1, brokers=3) as cluster, deadline() as nursery:
        one = Recorder()
        member = await start_member(nursery, cluster, one)
        await one.until(lambda: bool(one.sessions))
        await trio.sleep(5)
        generation = one.sessions[0].generation
        cluster.delay_next(Api.OFFSET_COMMIT, HELD, half=half)  # type: ignore[arg-type]
        fill(cluster, 4)
        await eventually(lambda: cluster.faults == ())
        cluster.move_coordinator("g", _next_broker(member))
        await eventually(lambda: committed(cluster) == {"orders-0": 4})
        await trio.sleep(10)
        assert member.seen(SessionEnded) == []
        assert one.sessions[0].generation == generation
        assert one.offsets("orders", 0) == [0, 1, 2, 3]


def _next_broker(member: Running) -> int:
    return (member.seen(CoordinatorFound)[-1].node_id + 1) % 3
