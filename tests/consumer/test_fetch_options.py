"""Fetch requests with the configured options. Over the in-memory cluster under virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.consumer.kit import watch_fetches
from tests.group.kit import Recorder, deadline, fill, orders, start_member


async def test_fetches_of_busy_partitions_request_the_configured_bytes(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = watch_fetches(monkeypatch)
    async with orders(3) as cluster, deadline() as nursery:
        for partition in range(3):
            fill(cluster, 100, partition)
        handler = Recorder()
        await start_member(
            nursery,
            cluster,
            handler,
            fetch_min_bytes=7,
            fetch_max_bytes=5_000,
            fetch_max_wait=1.5,
            fetch_max_partition_bytes=3_000,
            isolation_level="read_committed",
            rack_id="here",
        )
        await handler.received(300)
    bodies: list[Any] = [body for _, body in fetches.seen]
    assert len(bodies) > 2, "the records take several fetches"
    assert {(body.min_bytes, body.isolation_level, body.rack_id) for body in bodies} == {(7, 1, "here")}
    assert {part.partition_max_bytes for body in bodies for topic in body.topics for part in topic.partitions} == {
        3_000
    }
    # Later requests may be for fewer partitions, with a shorter wait.
    assert (bodies[0].max_bytes, bodies[0].max_wait_ms) == (5_000, 1_500)
    assert all(body.max_bytes <= 5_000 and body.max_wait_ms <= 1_500 for body in bodies)


@pytest.mark.parametrize("least", [10_000, 200_000])
async def test_fetch_waits_for_min_bytes_or_max_wait(autojump_clock: MockClock, least: int) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler, fetch_min_bytes=least, fetch_max_wait=30.0)
        await trio.sleep(40)  # a fetch has been pending for ten seconds
        began = trio.current_time()
        cluster.produce("orders", 0, b"x" * (least // 2))
        await handler.received(1)
        assert 15.0 < trio.current_time() - began < 25.0, "at the end of fetch_max_wait"
        await trio.sleep(40)
        began = trio.current_time()
        cluster.produce("orders", 0, b"x" * least)
        await handler.received(2)
        assert trio.current_time() - began < 1.0
