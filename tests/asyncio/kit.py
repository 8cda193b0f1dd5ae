"""Helpers of the asyncio tests: an embedded cluster in a thread of its own, reached over TCP in real time."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from sarameya import Config
from sarameya.asyncio import ConsumerGroup
from sarameya.asyncio.portal import Portal
from sarameya.embedded import CoordinatorConfig, EmbeddedCluster
from sarameya.model import TopicPartition

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds until a test that still waits fails. On a working machine no test waits that long."""
QUICK = Config(
    offset_initial="oldest",
    session_timeout=6.0,
    heartbeat_interval=0.2,
    autocommit_interval=0.1,
    fetch_max_wait=0.1,
)


class Cluster:
    """An `EmbeddedCluster` whose methods are called in its thread."""

    def __init__(self, cluster: EmbeddedCluster, portal: Portal) -> None:
        self.bootstrap_servers = cluster.bootstrap_servers
        self._cluster = cluster
        self._portal = portal

    async def do(self, function: Callable[[EmbeddedCluster], T]) -> T:
        return await self._portal.call_sync(function, self._cluster)

    async def produce(self, topic: str, partition: int, *values: bytes, key: bytes | None = None) -> None:
        await self.do(lambda cluster: cluster.produce_many(topic, partition, [(key, value) for value in values]))

    async def committed(self, group: str, topic: str = "orders", partition: int = 0) -> int | None:
        offsets = await self.do(lambda cluster: dict(cluster.committed(group)))
        found = offsets.get(TopicPartition(topic, partition))
        return None if found is None else found.offset

    async def members(self, group: str) -> int:
        return await self.do(lambda cluster: len(cluster.describe_group(group).members))


@asynccontextmanager
async def cluster_of(topics: Mapping[str, int], groups: CoordinatorConfig | None = None) -> AsyncIterator[Cluster]:
    """Yield a cluster with these topics."""
    groups = groups or CoordinatorConfig(initial_rebalance_delay=0)
    cluster = EmbeddedCluster(topics, groups=groups)
    portal = Portal("embedded cluster", cluster, "closed")
    await portal.open()
    try:
        yield Cluster(cluster, portal)
    finally:
        await portal.close()


def group_of(cluster: Cluster, group: str = "billing", config: Config = QUICK, **options: Any) -> ConsumerGroup:
    """Return a member of a group on this cluster."""
    return ConsumerGroup(cluster.bootstrap_servers, group, config, **options)


async def eventually(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.01)


def run(main: Callable[[], Coroutine[Any, Any, T]], caplog: pytest.LogCaptureFixture | None = None) -> T:
    """Run a test's coroutine function in asyncio's debug mode, and check that it leaves nothing behind."""
    before = set(threading.enumerate())

    async def checked() -> T:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 1e9  # depends on the machine
        async with asyncio.timeout(2 * PATIENCE):
            found = await main()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert left == set(), "tasks are left"
        return found

    with _no_warnings():
        found = asyncio.run(checked(), debug=True)
        gc.collect()
    left = {thread for thread in threading.enumerate() if not thread.name.startswith("Trio thread")} - before
    assert left == set(), "threads are left"
    return found


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


class _no_warnings:
    """Fail if asyncio logs a warning or an error."""

    def __enter__(self) -> None:
        self._found = _Warnings()
        logging.getLogger("asyncio").addHandler(self._found)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        logging.getLogger("asyncio").removeHandler(self._found)
        if kind is None:
            assert self._found.texts == []
