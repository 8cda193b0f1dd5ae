"""Programs on uvloop's event loop."""

from __future__ import annotations

import asyncio

import pytest

from sarameya.asyncio import Producer
from tests.asyncio.kit import QUICK, Cluster, cluster_of, eventually, group_of
from tests.asyncio.test_consumer_group import RecordingClaimHandler
from tests.asyncio.test_message_handler import RecordingMessageHandler

uvloop = pytest.importorskip("uvloop")


async def read(cluster: Cluster) -> None:
    handler = RecordingClaimHandler()
    async with Producer(cluster.bootstrap_servers, QUICK) as producer, group_of(cluster) as group:
        consuming = asyncio.create_task(group.consume(["orders"], handler))
        await asyncio.gather(*(producer.send("orders", b"%d" % number) for number in range(100)))
        await eventually(lambda: len(handler.values) == 100)
        consuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consuming
    assert await cluster.committed("billing") == 100


async def handle(cluster: Cluster) -> None:
    handler = RecordingMessageHandler()
    handler.ordering = "none"
    async with group_of(cluster, "g") as group:
        consuming = asyncio.create_task(group.consume(["orders"], handler))
        await eventually(lambda: handler.count == 100)
        await group.close()
        await consuming
    assert await cluster.committed("g") == 100


def test_programs_run_on_uvloop() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await read(cluster)
            await handle(cluster)

    with asyncio.Runner(debug=True, loop_factory=uvloop.new_event_loop) as runner:
        runner.get_loop().slow_callback_duration = 1e9
        runner.run(main())
