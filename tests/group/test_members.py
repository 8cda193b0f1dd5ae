"""Several members of one group: sharing, taking over, being expelled. Over the in-memory cluster under virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya.embedded import EmbeddedCluster
from sarameya.observe import SessionEnding
from tests.group.kit import CutOff, Recorder, committed, deadline, eventually, fill, orders, start_member


async def test_second_member_takes_its_share_and_gives_it_back(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        first = await start_member(nursery, cluster, one)
        await one.until(lambda: len(one.sessions) == 1)
        second = await start_member(nursery, cluster, two)
        await two.until(lambda: len(two.sessions) == 1)
        await one.until(lambda: len(one.sessions) == 2)
        assert sorted([one.sessions[1].claims["orders"], two.sessions[0].claims["orders"]]) == [(0, 1), (2, 3)]
        await second.close()
        await one.until(lambda: len(one.sessions) == 3)
        assert one.sessions[2].claims == {"orders": (0, 1, 2, 3)}
        assert first.error is None
        assert second.error is None


async def test_rebalance_loses_nothing_and_repeats_nothing(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        await start_member(nursery, cluster, one)

        async def keep_producing() -> None:
            for i in range(200):
                cluster.produce("orders", i % 4, b"%d" % i)
                await trio.sleep(0.1)

        nursery.start_soon(keep_producing)
        await one.received(40)
        second = await start_member(nursery, cluster, two)
        await two.received(30)
        await second.close()
        await one.until(lambda: len(one.messages) + len(two.messages) >= 200)
        assert sorted(one.values() + two.values(), key=lambda v: int(v or b"")) == [b"%d" % i for i in range(200)]


async def test_surplus_member_stays_idle_and_takes_over(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        first = await start_member(nursery, cluster, one)
        await one.until(lambda: len(one.sessions) == 1)
        second = await start_member(nursery, cluster, two)
        await two.until(lambda: len(two.sessions) == 1)
        await one.until(lambda: len(one.sessions) == 2)
        idle, busy = (one, two) if not one.sessions[1].claims.get("orders") else (two, one)
        await (second if busy is two else first).close()
        fill(cluster, 3)
        await idle.received(3)
        assert idle.offsets("orders", 0) == [0, 1, 2]
        assert busy.messages == []


async def test_round_robin_group_assigns_partitions_in_turn(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        await start_member(nursery, cluster, one, rebalance_strategies=("roundrobin",))
        await one.until(lambda: len(one.sessions) == 1)
        await start_member(nursery, cluster, two, rebalance_strategies=("roundrobin",))
        await two.until(lambda: len(two.sessions) == 1)
        await one.until(lambda: len(one.sessions) == 2)
        assert sorted([one.sessions[1].claims["orders"], two.sessions[0].claims["orders"]]) == [(0, 2), (1, 3)]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_rebalance_of_one_member_rebalances_the_whole_group(autojump_clock: MockClock, assignor: str) -> None:
    """c1 reads {t1, t2}, c2 {t1, t3}, c3 {t2, t3}: no topic is read by all, and yet none of them rebalances alone."""
    wanted = {"c1": ("t1", "t2"), "c2": ("t1", "t3"), "c3": ("t2", "t3")}
    topics = {"t1": 2, "t2": 2, "t3": 2}
    async with EmbeddedCluster(topics=topics, in_memory=True, seed=1) as cluster, deadline() as nursery:
        handlers = {name: Recorder() for name in wanted}
        members = {
            name: await start_member(
                nursery, cluster, handlers[name], topics=wanted[name], rebalance_strategies=(assignor,)
            )
            for name in wanted
        }

        def claims(name: str) -> dict[str, int]:
            """Return topic -> the number of its partitions that the member reads."""
            sessions = handlers[name].sessions
            return {topic: len(numbers) for topic, numbers in sessions[-1].claims.items()} if sessions else {}

        def generations() -> list[int]:
            return [handler.sessions[-1].generation for handler in handlers.values()]

        await eventually(lambda: all(claims(name) == dict.fromkeys(wanted[name], 1) for name in wanted))
        await trio.sleep(10)
        (before,) = set(generations())

        handlers["c1"].sessions[-1].end("c1 rebalances")
        await eventually(lambda: generations() == [before + 1] * 3)
        assert all(claims(name) == dict.fromkeys(wanted[name], 1) for name in wanted)

        await members["c1"].close()
        await eventually(lambda: claims("c2").get("t1") == 2 and claims("c3").get("t2") == 2)
        assert (claims("c2"), claims("c3")) == ({"t1": 2, "t3": 1}, {"t2": 2, "t3": 1}), (
            "each takes over the partition of its own topic"
        )


async def test_partitions_of_a_frozen_member_move_to_others(autojump_clock: MockClock) -> None:

    async with orders(2) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        cut = CutOff(cluster.transport)
        frozen = await start_member(nursery, cluster, one, transport=cut)
        await one.until(lambda: len(one.sessions) == 1)
        await start_member(nursery, cluster, two)
        await two.until(lambda: len(two.sessions) == 1)
        cut.alive = False
        fill(cluster, 5, 0)
        fill(cluster, 5, 1)
        await two.received(10)
        assert two.sessions[-1].claims == {"orders": (0, 1)}
        frozen.scope.cancel()
        await frozen.ended.wait()


async def test_expelled_member_that_wakes_commits_nothing_and_rejoins(autojump_clock: MockClock) -> None:

    async with orders(1) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        cut = CutOff(cluster.transport)
        zombie = await start_member(nursery, cluster, one, transport=cut, autocommit_interval=1000.0)
        fill(cluster, 3)
        await one.received(3)
        cut.alive = False
        await start_member(nursery, cluster, two, autocommit_interval=1.0)
        await two.received(3)  # nothing was committed: read again
        fill(cluster, 2)
        await two.received(5)
        await trio.sleep(2)
        assert committed(cluster) == {"orders-0": 5}
        cut.alive = True
        cluster.disconnect()
        await one.until(lambda: len(one.sessions) == 2)
        assert zombie.seen(SessionEnding)[0].lost
        assert [session.is_lost for session in one.sessions] == [True, False]
        assert committed(cluster) == {"orders-0": 5}, "the zombie's mark of 3 was never committed"
