"""Thousands of idle partitions in one member: it needs as many steps and bytes as with a few."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.consumer.kit import watch_fetches
from tests.group.kit import Recorder, Through, deadline, eventually, orders, start_member
from tests.step_counter import Steps

FEW, THOUSANDS = 50, 5_000
SAMPLES, APART = 8, 5.0
"""Number of samples, and the seconds between two."""


class Counting:
    """A transport that counts the bytes in both directions."""

    def __init__(self, transport: Any) -> None:
        self.bytes = 0
        self._transport = transport

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return _Counted(self, await self._transport.connect(host, port))


class _Counted(Through):
    def __init__(self, owner: Counting, stream: trio.abc.Stream) -> None:
        super().__init__(stream)
        self._owner = owner

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._owner.bytes += len(data)
        await super().send_all(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await super().receive_some(max_bytes)
        self._owner.bytes += len(data)
        return data


async def measure(partitions: int) -> tuple[float, float, int]:
    """Return the steps and bytes a minute of a member that has read everything, and its growth in memory blocks."""
    async with orders(partitions) as cluster, deadline(3600) as nursery:
        transport = Counting(cluster.transport)
        handler = Recorder()
        await start_member(nursery, cluster, handler, transport=transport, metadata_max_age=3600.0)
        cluster.produce("orders", partitions - 1, b"the last one")
        await handler.received(1)
        await eventually(lambda: len(handler.calls) > partitions)
        await trio.sleep(20)
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        sent, held = transport.bytes, []
        for _ in range(SAMPLES):
            await trio.sleep(APART)
            held.append(blocks())
        trio.lowlevel.remove_instrument(steps)
        # Memory of a pending fetch is not growth. Not every sample has one, so the minimum leaves it out.
        half, minutes = SAMPLES // 2, SAMPLES * APART / 60
        return steps.count / minutes, (transport.bytes - sent) / minutes, min(held[half:]) - min(held[:half])


def blocks() -> int:
    """Return the number of memory blocks that Python has in use."""
    gc.collect()
    return sys.getallocatedblocks()


async def test_idle_partitions_of_many_brokers_are_not_sent(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that long polls reserve do not reduce the room of the others."""
    fetches = watch_fetches(monkeypatch)
    async with orders(240, brokers=8) as cluster, deadline(3600) as nursery:
        await start_member(nursery, cluster, Recorder(), metadata_max_age=3600.0)
        await trio.sleep(20)
        before = len(fetches.seen)
        await trio.sleep(60)
        assert len(fetches.seen) > before
        assert not any(topic.partitions for _, body in fetches.seen[before:] for topic in body.topics)


async def test_thousands_of_idle_partitions_cost_as_much_as_a_few(autojump_clock: MockClock) -> None:
    few_steps, few_bytes, _ = await measure(FEW)
    for _ in range(3):
        steps, sent, grown = await measure(THOUSANDS)
        if grown < 2_000:
            break  # other threads of this process may allocate once; a member that leaks grows each time
    assert steps < 1.2 * few_steps
    assert sent < 1.2 * few_bytes
    assert grown < 2_000
