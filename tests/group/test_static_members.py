"""Static membership (KIP-345) of eager and cooperative members. Virtual time."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, FencedInstanceError, Message, Session, UnsupportedVersionError
from sarameya.protocol import versions
from sarameya.protocol.versions import Api, VersionRange
from tests.group.kit import CutOff, committed, deadline, eventually, fill, orders, start_member
from tests.group.test_cooperative import COOPERATIVE, Partitions

protocols = pytest.mark.parametrize("options", [{}, COOPERATIVE], ids=["eager", "cooperative"])


@protocols
@pytest.mark.parametrize("restarted", [0, 1], ids=["leader", "follower"])
async def test_restart_within_the_session_timeout_moves_nothing(
    autojump_clock: MockClock, options: dict[str, Any], restarted: int
) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        options = {**options, "session_timeout": 30.0}
        handlers = [Partitions(), Partitions()]
        members = [
            await start_member(nursery, cluster, handler, group_instance_id=f"i-{number}", **options)
            for number, handler in enumerate(handlers)
        ]
        await eventually(lambda: [len(handler.claims) for handler in handlers] == [2, 2])
        await trio.sleep(10)
        before, generation = [handler.claims for handler in handlers], cluster.describe_group("g").generation
        calls = list(handlers[1 - restarted].calls)
        await members[restarted].close()
        await trio.sleep(10)
        handlers[restarted] = Partitions()
        members[restarted] = await start_member(
            nursery, cluster, handlers[restarted], group_instance_id=f"i-{restarted}", metadata_max_age=20.0, **options
        )
        await eventually(lambda: bool(handlers[restarted].claims))
        await trio.sleep(40)
        assert [handler.claims for handler in handlers] == before
        assert handlers[1 - restarted].calls == calls, "the other member is not called"
        assert cluster.describe_group("g").generation == generation
        if restarted == 0:
            cluster.add_partitions("orders", 6)
            await eventually(lambda: [len(handler.claims) for handler in handlers] == [3, 3])


@protocols
@pytest.mark.parametrize("commits", [False, True])
async def test_new_member_with_the_same_instance_id_fences_the_old(
    autojump_clock: MockClock, options: dict[str, Any], commits: bool
) -> None:
    async def commit(session: Session, claim: Claim, message: Message) -> None:
        session.mark_message(message)
        if commits:
            await session.commit()

    async with orders(2) as cluster, deadline() as nursery:
        one, two, other = Partitions(commit), Partitions(commit), Partitions()
        await start_member(nursery, cluster, other, **options)
        await eventually(lambda: len(other.claims) == 2)
        first = await start_member(nursery, cluster, one, group_instance_id="i-1", **options)
        await eventually(lambda: len(one.claims) == 1)
        await trio.sleep(7)
        generation = cluster.describe_group("g").generation
        second = await start_member(nursery, cluster, two, group_instance_id="i-1", **options)
        for partition in (0, 1):
            fill(cluster, 3, partition)
        await first.ended.wait()
        assert isinstance(first.error, FencedInstanceError)
        assert "group_instance_id" in str(first.error)
        assert one.calls[-2:] == [f"lost {one.sessions[-1].claims['orders'][0]}", "cleanup"]
        await eventually(lambda: committed(cluster) == {"orders-0": 3, "orders-1": 3})
        assert not second.ended.is_set()
        assert len(two.claims) == 1
        assert cluster.describe_group("g").generation == generation


@protocols
async def test_returning_member_whose_instance_id_is_taken_is_fenced(
    autojump_clock: MockClock, options: dict[str, Any]
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        options = {**options, "group_instance_id": "i-1", "session_timeout": 40.0}
        one, two = Partitions(), Partitions()
        cut = CutOff(cluster.transport)
        first = await start_member(nursery, cluster, one, transport=cut, **options)
        await eventually(lambda: len(one.claims) == 2)
        cut.alive = False
        await trio.sleep(1)
        second = await start_member(nursery, cluster, two, **options)
        await eventually(lambda: len(two.claims) == 2)
        cut.alive = True
        await first.ended.wait()
        assert isinstance(first.error, FencedInstanceError)
        await trio.sleep(60)
        assert not second.ended.is_set()
        assert two.calls.count("setup") == 1


@protocols
async def test_member_is_fenced_during_its_pending_join(autojump_clock: MockClock, options: dict[str, Any]) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two, silent = Partitions(), Partitions(), Partitions()
        cut = CutOff(cluster.transport)
        first = await start_member(nursery, cluster, one, group_instance_id="i-1", **options)
        await start_member(
            nursery, cluster, silent, transport=cut, session_timeout=30.0, rebalance_timeout=40.0, **options
        )
        await eventually(lambda: len(one.claims) == len(silent.claims) == 1)
        cut.alive = False  # it will not rejoin: the join phase lasts until it expires
        await start_member(nursery, cluster, Partitions(), **options)
        await trio.sleep(10)
        second = await start_member(nursery, cluster, two, group_instance_id="i-1", **options)
        await first.ended.wait()
        assert isinstance(first.error, FencedInstanceError)
        await eventually(lambda: len(two.claims) == 1)
        assert not second.ended.is_set()


async def test_fault_48_static_member_needs_a_broker_since_2_3(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The versions of Kafka 2.2.
    monkeypatch.setitem(versions.CLIENT_VERSIONS, Api.JOIN_GROUP, VersionRange(2, 4))
    monkeypatch.setitem(versions.CLIENT_VERSIONS, Api.SYNC_GROUP, VersionRange(0, 2))
    monkeypatch.setitem(versions.CLIENT_VERSIONS, Api.HEARTBEAT, VersionRange(0, 2))
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 1)
        static = await start_member(nursery, cluster, Partitions(), group_instance_id="i-1")
        with trio.fail_after(5.0):
            await static.ended.wait()
        assert isinstance(static.error, UnsupportedVersionError)
        assert re.search(r"group_instance_id = 'i-1': .*JoinGroup up to version 4.*Kafka 2\.3", str(static.error))
        assert cluster.describe_group("g").members == ()
        dynamic = Partitions()
        await start_member(nursery, cluster, dynamic)
        await dynamic.received(1)
