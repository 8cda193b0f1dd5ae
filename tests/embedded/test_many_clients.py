"""Thousands of connections and members. Idle ones take no steps and no more memory; the cost of busy ones is linear."""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import trio
import trio.testing
from kafka.protocol.metadata import ApiVersionsRequest
from trio.testing import MockClock

from sarameya.embedded import CoordinatorConfig, EmbeddedCluster
from sarameya.embedded.cluster_state import BrokerSettings
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.testing import memory_cluster
from tests.embedded.api_kit import ApiKit, request
from tests.embedded.group_requests import GROUP, heartbeat, join, sync
from tests.embedded.wire_client import WireClient, connected
from tests.step_counter import an_hour, counted

CONNECTIONS = 2_000
VERSIONS = request(ApiVersionsRequest, 3, client_software_name="x", client_software_version="1")


@asynccontextmanager
async def clients(cluster: EmbeddedCluster, count: int) -> AsyncIterator[list[WireClient]]:
    """Return `count` connections, each after one answered request."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(connected(cluster)) for _ in range(count)]
        for client in opened:
            await client.ask(VERSIONS)
        await trio.testing.wait_all_tasks_blocked()
        yield opened


def memory_blocks() -> int:
    """Return the number of memory blocks that Python uses."""
    gc.collect()
    return sys.getallocatedblocks()


async def test_idle_connections_take_no_steps_and_no_more_memory(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, clients(cluster, CONNECTIONS):
        before = memory_blocks()
        assert await counted().of(1, an_hour) <= 2  # the test's own
        assert memory_blocks() - before < 100


async def test_request_cost_ignores_idle_connections(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, connected(cluster) as busy:
        steps = counted()
        alone = await steps.of(100, lambda: busy.ask(VERSIONS))
        async with clients(cluster, CONNECTIONS):
            assert await steps.of(100, lambda: busy.ask(VERSIONS)) < alone + 0.1


async def test_thousands_of_closed_connections_leave_nothing_behind(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster:
        async with clients(cluster, CONNECTIONS):
            pass
        await trio.testing.wait_all_tasks_blocked()
        before, tasks = memory_blocks(), trio.lowlevel.current_statistics().tasks_living
        async with clients(cluster, CONNECTIONS):
            assert memory_blocks() - before > 10 * CONNECTIONS
        await trio.testing.wait_all_tasks_blocked()
        assert memory_blocks() - before < CONNECTIONS / 10
        assert trio.lowlevel.current_statistics().tasks_living == tasks


def group_of(members: int) -> tuple[ApiKit, list[str]]:
    """Return a stable group and its members' ids."""
    kit = ApiKit(settings=BrokerSettings(groups=CoordinatorConfig(initial_rebalance_delay=3.0)))
    waiting = [kit.ask(join(version=3, timeout=60_000)) for _ in range(members)]
    kit.sleep(10)
    ids = [answer.member_id for (answer,) in waiting]
    for member_id in ids:
        kit.ask(sync(member_id, 1))
    assert kit.answer(heartbeat(ids[0])).error_code == 0
    return kit, ids


def calls_of_a_heartbeat(members: int) -> float:
    """Return the number of function calls for a heartbeat, including the wire, in a group of `members` members."""
    kit, ids = group_of(members)
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    requests = [heartbeat(member_id) for member_id in ids[:50]]
    sys.setprofile(count)
    for number, message in enumerate(requests):
        kit.ask(message)
        if number % 10 == 0:
            kit.sleep(1)
    sys.setprofile(None)
    return calls / 50


def test_heartbeat_cost_does_not_grow_with_the_group() -> None:
    few, many = calls_of_a_heartbeat(50), calls_of_a_heartbeat(2_000)
    assert many < 1.2 * few


def test_thousands_of_silent_members_expire_once() -> None:
    """The coordinator removes each member at the end of its session. Then the group is empty and has no deadline."""
    kit, ids = group_of(2_000)
    kit.sleep(45)
    assert kit.answer(heartbeat(ids[0])).error_code == 0
    kit.sleep(120)
    described = kit.cluster.coordinator(0).describe(GROUP)
    assert (described.state, described.members) == (GroupState.EMPTY, ())
    kit.sleep(3600)
