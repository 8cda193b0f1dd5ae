"""The cost of requests in countable numbers: steps of tasks, and objects that remain."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.consumer import HeartbeatRequest as Heartbeat
from trio.testing import MockClock

from sarameya import Config
from sarameya.embedded import EmbeddedCluster
from sarameya.net.broker_pool import Purpose, open_broker_pool
from sarameya.protocol.cluster.metadata import Broker
from tests.embedded.api_kit import request
from tests.embedded.group_requests import GROUP, commit, heartbeat, member
from tests.embedded.wire_client import connected
from tests.step_counter import an_hour, counted


def long_poll() -> Any:
    topics = [{"topic": "orders", "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}]
    return request(
        FetchRequest, 12, max_wait_ms=30_000, min_bytes=1, max_bytes=1 << 20, topics=topics, session_epoch=-1
    )


def waiting(cluster: EmbeddedCluster) -> tuple[int, int]:
    """Return the number of waiting operations, and the size of the heaps of their deadlines."""
    state = cluster._state
    purgatories = [*state.coordinator(0)._purgatories, state.fetches]
    return sum(map(len, purgatories)), sum(len(purgatory._heap) for purgatory in purgatories)


async def test_heartbeat_through_the_broker_takes_a_dozen_steps(autojump_clock: MockClock) -> None:
    """Client and broker together take about 0.15 ms on a machine of 2024, nearly all of it in these steps."""
    async with (
        EmbeddedCluster(in_memory=True, seed=1) as cluster,
        connected(cluster) as client,
        open_broker_pool(cluster.bootstrap_servers, Config(), lambda event: None, cluster.transport) as pool,
    ):
        member_id = await member(client)
        pool.learn(Broker(0, "broker-0", 9092))

        async def beat() -> None:
            fields = {"group_id": GROUP, "generation_id": 1, "member_id": member_id, "group_instance_id": None}
            assert (await pool.request(0, Purpose.COORDINATOR, Heartbeat, **fields)).error_code == 0

        await beat()  # connects
        assert await counted().of(100, beat) < 13


async def test_long_poll_takes_hardly_more_steps_than_a_heartbeat(autojump_clock: MockClock) -> None:
    async with EmbeddedCluster({"orders": 1}, in_memory=True) as cluster, connected(cluster) as client:
        steps = counted()
        one = await steps.of(10, lambda: client.ask(heartbeat("m")))
        assert await steps.of(10, lambda: client.ask(long_poll())) <= one + 4
        assert trio.current_time() == 300


async def test_idle_cluster_takes_no_steps(autojump_clock: MockClock) -> None:
    async with EmbeddedCluster({"orders": 1}, brokers=3, in_memory=True) as cluster, connected(cluster) as client:
        await client.ask(heartbeat("m"))
        await trio.testing.wait_all_tasks_blocked()
        assert await counted().of(1, an_hour) <= 2  # the test's own


async def test_virtual_hours_leave_nothing_behind(autojump_clock: MockClock) -> None:
    async with (
        EmbeddedCluster({"orders": 1}, in_memory=True, seed=1) as cluster,
        connected(cluster) as client,
        connected(cluster) as reader,
        trio.open_nursery() as nursery,
    ):
        member_id = await member(client)

        async def read() -> None:
            while True:
                await reader.ask(long_poll())

        nursery.start_soon(read)
        await trio.sleep(1)
        before, _ = waiting(cluster)
        for tick in range(2 * 1200):
            assert (await client.ask(heartbeat(member_id))).error_code == 0
            if tick % 5 == 0:
                own = {"generation_id_or_member_epoch": 1, "member_id": member_id}
                await client.ask(commit(tick, **own))
            await trio.sleep(3)
        operations, heap = waiting(cluster)
        assert (operations, heap <= 64) == (before, True)
        assert cluster._state.offsets_partition(GROUP).log.batch_count < 600
        assert trio.current_time() > 2 * 3600
        nursery.cancel_scope.cancel()
