"""Reading from the nearest replica (KIP-392). Over the in-memory cluster under virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import ErrorCode
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import ReadReplicaChanged, Retrying
from sarameya.protocol.versions import Api
from tests.consumer.kit import watch_fetches
from tests.group.kit import Recorder, deadline, fill, start_member


def cluster_with_racks(*, brokers: int = 2, partitions: int = 1) -> EmbeddedCluster:
    """Return a cluster with racks. Broker 0 leads partition 0; broker 1, in rack `b`, follows."""
    racks = {node_id: "abc"[node_id] for node_id in range(brokers)}
    return EmbeddedCluster(
        topics={"orders": partitions},
        brokers=brokers,
        racks=racks,
        replication_factor=2,
        rack_aware_reads=True,
        in_memory=True,
        seed=1,
    )


async def test_replica_in_the_members_rack_is_read(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    fetches = watch_fetches(monkeypatch)
    async with cluster_with_racks() as cluster, deadline() as nursery:
        fill(cluster, 10)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, rack_id="b")
        await handler.received(10)
        fill(cluster, 10)
        await handler.received(20)
        assert handler.offsets("orders", 0) == list(range(20))
        assert [event.node_id for event in member.seen(ReadReplicaChanged)] == [1]
        assert fetches.seen[-1][0] == 1
        assert not member.seen(Retrying)


async def test_leader_is_requested_after_each_lease(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    fetches = watch_fetches(monkeypatch)
    async with cluster_with_racks() as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, rack_id="b", metadata_max_age=10.0)
        await trio.sleep(25)
        assert 2 <= [node for node, _ in fetches.seen].count(0) <= 4, "once at the start, and every ten seconds"
        fill(cluster, 10)
        await handler.received(10)
        assert not member.seen(Retrying)


async def test_stopped_replica_is_replaced_by_the_leader_at_once(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = watch_fetches(monkeypatch)
    async with cluster_with_racks() as cluster, deadline() as nursery:
        fill(cluster, 10)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, rack_id="b")
        await handler.received(10)
        await cluster.stop_broker(1)
        began = trio.current_time()
        fill(cluster, 10)
        await handler.received(20)
        assert trio.current_time() - began < 1.0
        assert [event.node_id for event in member.seen(ReadReplicaChanged)] == [1, None]
        assert fetches.seen[-1][0] == 0


async def test_failing_replica_is_avoided_for_a_lease(
    autojump_clock: MockClock,
) -> None:
    async with cluster_with_racks() as cluster, deadline() as nursery:
        fill(cluster, 10)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, rack_id="b", metadata_max_age=20.0)
        await handler.received(10)
        await trio.sleep(15)
        cluster.fail_next(Api.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, None, broker_id=1)
        fill(cluster, 10)
        await handler.received(20)
        await trio.sleep(15)  # the replica's lease, in which it failed, would be over by now
        assert [event.node_id for event in member.seen(ReadReplicaChanged)] == [1, None]
        await trio.sleep(10)
        assert [event.node_id for event in member.seen(ReadReplicaChanged)] == [1, None, 1, None]
        fill(cluster, 10)
        await handler.received(30)
        assert handler.offsets("orders", 0) == list(range(30))


async def test_lagging_replica_is_replaced_by_the_leader(autojump_clock: MockClock) -> None:
    async with cluster_with_racks() as cluster, deadline() as nursery:
        fill(cluster, 10)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, rack_id="b")
        await handler.received(10)
        cluster.hold_replica("orders", 0, 1, 5)
        fill(cluster, 10)
        await handler.received(20)
        assert handler.offsets("orders", 0) == list(range(20))
        assert [event.node_id for event in member.seen(ReadReplicaChanged)][-1] is None


async def test_member_without_a_rack_reads_from_the_leader(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = watch_fetches(monkeypatch)
    async with cluster_with_racks() as cluster, deadline() as nursery:
        fill(cluster, 10)
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.received(10)
        assert set(fetches.of(0)) == {0}


async def test_leader_that_moves_to_the_nearer_replica_is_followed(autojump_clock: MockClock) -> None:
    async with cluster_with_racks() as cluster, deadline() as nursery:
        fill(cluster, 10)
        handler = Recorder()
        await start_member(nursery, cluster, handler, rack_id="b")
        await handler.received(10)
        cluster.move_leader("orders", 0, 1)
        fill(cluster, 10)
        await handler.received(20)
        cluster.move_leader("orders", 0, 0)
        fill(cluster, 10)
        await handler.received(30)
        assert handler.offsets("orders", 0) == list(range(30))
