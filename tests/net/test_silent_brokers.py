"""Brokers that accept connections and do not respond, or respond with outdated metadata. Virtual time.

Each of three brokers is the faulty one in turn, in each of its roles: bootstrap server, source of metadata,
coordinator.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from typing import Any

import pytest
import trio
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from trio.testing import MockClock

from sarameya import Config, ConnectError, ProtocolError, TokenError, TopicRecreatedError
from sarameya.embedded import EmbeddedCluster
from sarameya.net.broker_pool import BrokerPool, Purpose, open_broker_pool
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.observe import ConnectionLost, Event, LeaderChanged, MembershipChanged
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers, on_request
from tests.group.kit import Recorder, claim_failure, committed, deadline, eventually, fill, orders, start_member

BROKERS = (0, 1, 2)
REQUEST_TIMEOUT = 30.0


def lead_elsewhere(cluster: EmbeddedCluster, faulty: int) -> int:
    """Move all leaders and the group's coordinator away from a broker. Return the new coordinator."""
    others = [broker for broker in BROKERS if broker != faulty]
    for partition in range(3):
        cluster.move_leader("orders", partition, others[partition % 2])
    cluster.move_coordinator("g", others[0])
    return others[0]


@pytest.mark.parametrize("silent", BROKERS)
async def test_fault_42_silent_bootstrap_server_delays_only_seconds(autojump_clock: MockClock, silent: int) -> None:
    async with orders(3, brokers=3) as cluster, deadline() as nursery:
        lead_elsewhere(cluster, silent)
        for partition in range(3):
            fill(cluster, 5, partition)
        cluster.freeze_broker(silent)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        with trio.fail_after(6.0):
            await handler.received(15)
        assert member.error is None


@pytest.mark.parametrize("healthy", BROKERS)
async def test_fault_42_start_tries_all_bootstrap_servers(autojump_clock: MockClock, healthy: int) -> None:
    """Two of three servers accept the connection and do not respond."""
    async with orders(3, brokers=3) as cluster:
        for broker in BROKERS:
            if broker != healthy:
                cluster.freeze_broker(broker)
        async with (
            open_broker_pool(cluster.bootstrap_servers, Config(), lambda event: None, cluster.transport) as pool,
            trio.open_nursery() as nursery,
        ):
            metadata = MetadataRefresher(pool, Config(), lambda event: None)
            nursery.start_soon(metadata.run)
            assert (await metadata.wait_for_topics(["orders"])).partition_counts(["orders"]) == {"orders": 3}
            nursery.cancel_scope.cancel()


async def test_silent_cluster_is_reported_with_every_address(autojump_clock: MockClock) -> None:
    async with orders(3, brokers=3) as cluster:
        for broker in BROKERS:
            cluster.freeze_broker(broker)
        async with open_broker_pool(cluster.bootstrap_servers, Config(), lambda _: None, cluster.transport) as pool:
            with pytest.raises(ConnectError) as caught:
                await pool.request_any(MetadataRequest, topics=[])
            assert all(address in str(caught.value) for address in cluster.bootstrap_servers)
            assert trio.current_time() <= REQUEST_TIMEOUT


@pytest.mark.parametrize("silent", BROKERS)
async def test_fault_42_silent_broker_does_not_delay_new_metadata(autojump_clock: MockClock, silent: int) -> None:
    async with orders(3, brokers=3) as cluster, deadline() as nursery:
        lead_elsewhere(cluster, silent)
        handler = Recorder()
        await start_member(nursery, cluster, handler, metadata_max_age=10.0)
        await handler.until(lambda: bool(handler.sessions))
        await trio.sleep(35)  # it has sent requests to all brokers by now
        cluster.freeze_broker(silent)
        cluster.add_partitions("orders", 4)
        for partition in range(4):
            cluster.move_leader("orders", partition, (silent + 1) % 3)
        fill(cluster, 1, 3)
        with trio.fail_after(10.0 + 5.0):
            await handler.until(lambda: handler.offsets("orders", 3) == [0])


@pytest.mark.parametrize("silent", BROKERS)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_fault_42_hanging_coordinator_is_replaced(autojump_clock: MockClock, silent: int, strategy: str) -> None:
    """The cluster elects another coordinator after nine seconds, as Kafka does when it fences a broker."""
    async with orders(3, brokers=3) as cluster, deadline() as nursery:
        other = lead_elsewhere(cluster, silent)
        cluster.move_coordinator("g", silent)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, rebalance_strategies=(strategy,))
        await handler.until(lambda: bool(handler.sessions))
        await trio.sleep(20)
        cluster.freeze_broker(silent)
        began = trio.current_time()
        await trio.sleep(9)
        cluster.move_coordinator("g", other)
        await eventually(lambda: member.group.status().coordinator == other)
        for partition in range(3):
            fill(cluster, 1, partition)
        await handler.received(3)
        assert trio.current_time() - began < REQUEST_TIMEOUT


@pytest.mark.parametrize("silent", BROKERS)
async def test_fault_42_coordinator_that_hangs_in_a_join_is_replaced(autojump_clock: MockClock, silent: int) -> None:
    """A coordinator may hold a join for a whole rebalance; a member does not wait so long for a hanging broker."""
    async with orders(3, brokers=3) as cluster, deadline() as nursery:
        other = lead_elsewhere(cluster, silent)
        cluster.move_coordinator("g", silent)
        cluster.drop_next(Api.JOIN_GROUP, 1, half="request", hang_up=False)
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await eventually(lambda: not cluster.faults)
        cluster.freeze_broker(silent)
        cluster.move_coordinator("g", other)
        with trio.fail_after(REQUEST_TIMEOUT):
            await handler.until(lambda: bool(handler.sessions))


@pytest.mark.parametrize("error", [TokenError("the token server is away"), ProtocolError("garbage")])
async def test_held_join_survives_failed_coordinator_lookups(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    request, failed = BrokerPool.request, list[float]()

    async def fail_for_a_while(
        pool: BrokerPool, node: int, purpose: Purpose, message: Any, *more: Any, **fields: Any
    ) -> Any:
        if message is FindCoordinatorRequest and 5.0 < trio.current_time() < 15.0:
            failed.append(trio.current_time())
            raise error
        return await request(pool, node, purpose, message, *more, **fields)

    async with orders(3, brokers=3) as cluster, deadline() as nursery:
        cluster.drop_next(Api.JOIN_GROUP, 1, half="request", hang_up=False)
        handler = Recorder()
        monkeypatch.setattr(BrokerPool, "request", fail_for_a_while)
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(20)
        assert failed
        assert member.error is None
        await handler.until(lambda: bool(handler.sessions))


async def test_fault_42_commit_moves_from_a_hanging_coordinator(autojump_clock: MockClock) -> None:
    async with orders(3, brokers=3) as cluster, deadline() as nursery:
        other = lead_elsewhere(cluster, 0)
        cluster.move_coordinator("g", 0)
        handler = Recorder()
        await start_member(nursery, cluster, handler, autocommit_interval=1.0)
        await handler.until(lambda: bool(handler.sessions))
        await trio.sleep(5)
        cluster.freeze_broker(0)
        fill(cluster, 5)
        await trio.sleep(2)  # the commit is under way
        cluster.move_coordinator("g", other)
        with trio.fail_after(10.0):  # a heartbeat each 3 s waits for 5 s
            await eventually(lambda: committed(cluster).get("orders-0") == 5)


async def test_fault_42_leader_assigns_without_fresh_metadata(autojump_clock: MockClock) -> None:
    async with orders(3, brokers=3) as cluster, deadline() as nursery:
        first, second = Recorder(), Recorder()
        await start_member(nursery, cluster, first, client_id="first")
        await first.until(lambda: bool(first.sessions))
        await trio.sleep(5)
        cluster.drop_next(Api.METADATA, None, hang_up=False, client_id="first")
        await start_member(nursery, cluster, second, client_id="second")
        # A heartbeat at least each 3 s reports the rebalance; the assignment follows within half a session timeout.
        with trio.fail_after(3.0 + 5.0):
            await second.until(lambda: bool(second.sessions))


@pytest.mark.parametrize("lagging", BROKERS)
async def test_fault_42_lagging_partition_counts_start_no_rebalance(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, lagging: int
) -> None:
    def outdated(request: Any, answer: Any) -> None:
        for topic in answer.topics:
            topic.partitions = [p for p in topic.partitions if p.partition_index < 3]

    async with orders(3, brokers=3) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, metadata_max_age=5.0)
        await handler.until(lambda: bool(handler.sessions))
        edit_answers(monkeypatch, Api.METADATA, outdated, broker_id=lagging)
        cluster.add_partitions("orders", 6)
        await handler.until(lambda: sum(len(c) for c in handler.sessions[-1].claims.values()) == 6)
        await trio.sleep(120)
        rebalances = [e for e in member.seen(MembershipChanged) if e.after == "PREPARING_REBALANCE"]
        assert len(rebalances) == 2, "the first join, and the one for the added partitions"


@pytest.mark.parametrize("lagging", [0, 1])
async def test_fault_42_lagging_broker_does_not_close_connections_to_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, lagging: int
) -> None:
    """The lagging broker does not know that broker 2 is back and leads."""

    def outdated(request: Any, answer: Any) -> None:
        answer.brokers = [broker for broker in answer.brokers if broker.node_id != 2]
        for partition in (partition for topic in answer.topics for partition in topic.partitions):
            partition.leader_id, partition.leader_epoch = lagging, 0

    async with orders(3, brokers=3) as cluster, deadline() as nursery:
        for partition in range(3):
            cluster.move_leader("orders", partition, 2)
        cluster.move_coordinator("g", 2)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, metadata_max_age=5.0)
        await handler.until(lambda: bool(handler.sessions))
        edit_answers(monkeypatch, Api.METADATA, outdated, broker_id=lagging)
        before = len(member.events)
        for number in range(60):
            fill(cluster, 1, number % 3)
            await trio.sleep(1)
        await handler.received(60)
        assert [event for event in member.events[before:] if isinstance(event, LeaderChanged | ConnectionLost)] == []


@pytest.mark.parametrize("lagging", BROKERS)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_fault_42_topic_missing_at_one_broker_starts_no_rebalance(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, lagging: int, strategy: str
) -> None:
    """Members that subscribe by pattern request all topics before each join."""

    def without_refunds(request: Any, answer: Any) -> None:
        answer.topics = [topic for topic in answer.topics if topic.name != "refunds"]

    cluster = EmbeddedCluster(topics={"orders": 3, "refunds": 3}, brokers=3, in_memory=True, seed=1)
    async with cluster, deadline() as nursery:
        edit_answers(monkeypatch, Api.METADATA, without_refunds, broker_id=lagging)
        options: dict[str, Any] = {"metadata_max_age": 20.0, "rebalance_strategies": (strategy,)}
        members = [
            await start_member(nursery, cluster, Recorder(), topics=re.compile("orders|refunds"), **options)
            for _ in range(3)
        ]
        await trio.sleep(60)
        before = [len(member.seen(MembershipChanged)) for member in members]
        await trio.sleep(120)
        assert [len(member.seen(MembershipChanged)) for member in members] == before


@pytest.mark.parametrize("lagging", BROKERS)
async def test_fault_47_recreated_topic_is_found_despite_lag(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, lagging: int
) -> None:
    before = list[Any]()

    def outdated(request: Any, answer: Any) -> None:
        if not before:
            before.append(copy.deepcopy(answer.topics))
        answer.topics = copy.deepcopy(before[0])

    async with orders(3, brokers=3) as cluster, deadline() as nursery:
        lead_elsewhere(cluster, lagging)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, metadata_max_age=5.0)
        await handler.until(lambda: bool(handler.sessions))
        edit_answers(monkeypatch, Api.METADATA, outdated, broker_id=lagging)
        await eventually(lambda: bool(before))
        cluster.delete_topic("orders")
        cluster.create_topic("orders", 3)
        lead_elsewhere(cluster, lagging)
        with trio.fail_after(30.0):
            await member.ended.wait()
        assert isinstance(claim_failure(member), TopicRecreatedError)


async def test_fault_42_lookups_use_every_broker_in_turn(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: Counter[int] = Counter()
    async with orders(3, brokers=3) as cluster:
        config, events = Config(), list[Event]()
        async with open_broker_pool(cluster.bootstrap_servers, config, events.append, cluster.transport) as pool:
            answer = await pool.request_any(MetadataRequest, topics=[])
            metadata = MetadataRefresher(pool, config, events.append)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(metadata.run)
                await metadata.refresh()
                assert {b.node_id for b in answer.brokers} == set(BROKERS)
                on_request(monkeypatch, Api.METADATA, lambda call: requests.update([call.node_id]))
                on_request(monkeypatch, Api.FIND_COORDINATOR, lambda call: requests.update([call.node_id]))
                for _ in range(15):
                    await metadata.refresh()
                    await pool.request_any(FindCoordinatorRequest, key="g", key_type=0)
                nursery.cancel_scope.cancel()
    assert dict(requests) == dict.fromkeys(BROKERS, 10)
