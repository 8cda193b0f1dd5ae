"""Handlers that collect messages: kept bytes count towards the budget, and `has_room` shows when to flush."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ConsumerGroupHandler, MessageBatch, Session
from sarameya.embedded import EmbeddedCluster
from tests.group.kit import deadline, eventually, orders, start_member

KIB = 1024


class Collector(ConsumerGroupHandler):
    """A handler that keeps messages, and flushes all of a partition, in `flush_seconds`, when `is_due` returns true."""

    def __init__(self, is_due: Callable[[Claim], bool], flush_seconds: float = 0.0) -> None:
        self.claims: dict[int, Claim] = {}
        self.flushed = 0
        self.flushed_sizes: list[int] = []
        self._is_due = is_due
        self._flush_seconds = flush_seconds

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        self.claims[claim.partition] = claim
        kept: list[MessageBatch] = []
        async for batch in claim.batches():
            kept.append(batch)
            claim.hold(batch.size_bytes)
            if self._is_due(claim):
                await trio.sleep(self._flush_seconds)
                size = sum(one.size_bytes for one in kept)
                claim.release(size)
                self.flushed_sizes.append(size)
                self.flushed += sum(map(len, kept))
                kept = []


def produce(cluster: EmbeddedCluster, partitions: int, size: int) -> None:
    """Produce `size` bytes to each partition, in record batches of 10 KiB."""
    for number in range(partitions):
        for _ in range(size // (10 * KIB)):
            cluster.produce_many("orders", number, [(None, b"x" * KIB)] * 10)


SMALL = {"fetch_buffer_bytes": 1024 * KIB, "fetch_max_partition_bytes": 64 * KIB}


@pytest.mark.parametrize("flush_seconds", [0.0, 3.0], ids=["at once", "slowly"])
@pytest.mark.parametrize(("partitions", "brokers"), [(1, 1), (6, 2), (40, 3)])
async def test_collectors_that_flush_without_room_read_everything(
    autojump_clock: MockClock, partitions: int, brokers: int, flush_seconds: float
) -> None:
    """The handlers use nothing else to decide: no age, no number of rows."""
    each = 4096 * KIB // partitions
    async with orders(partitions, brokers) as cluster, deadline(3000) as nursery:
        produce(cluster, partitions, each)
        handler = Collector(lambda claim: not claim.has_room, flush_seconds)
        member = await start_member(nursery, cluster, handler, **SMALL)
        await eventually(
            lambda: sum(claim.position for claim in handler.claims.values()) == each // (10 * KIB) * 10 * partitions
        )
        assert handler.flushed > 0
        assert member.group.buffered_bytes <= 1024 * KIB * 1.5
        await member.close()
    share = 512 * KIB // partitions
    usual = sorted(handler.flushed_sizes)[len(handler.flushed_sizes) // 2]
    assert usual >= min(share, each) / 2, "no flush is due to a fetch that is buffered or pending"


async def test_collectors_that_ignore_has_room_stall(autojump_clock: MockClock) -> None:
    async with orders(6, 2) as cluster, deadline(3000) as nursery:
        produce(cluster, 6, 1024 * KIB)
        handler = Collector(lambda claim: False)
        await start_member(nursery, cluster, handler, **SMALL)
        await trio.sleep(300)
        positions = [claim.position for claim in handler.claims.values()]
        await trio.sleep(300)
        assert [claim.position for claim in handler.claims.values()] == positions
        assert max(positions) < 1024
        assert not any(claim.has_room for claim in handler.claims.values() if claim.position)


async def test_only_the_claim_that_holds_too_much_has_no_room(autojump_clock: MockClock) -> None:
    async with orders(3) as cluster, deadline() as nursery:
        produce(cluster, 3, 20 * KIB)
        handler = Collector(lambda claim: False)
        await start_member(nursery, cluster, handler, **SMALL)
        await eventually(lambda: [claim.position for claim in handler.claims.values()] == [20] * 3)
        one, *others = handler.claims.values()
        one.hold(900 * KIB)
        assert [claim.has_room for claim in (one, *others)] == [False, True, True]
        one.release(900 * KIB)
        assert one.has_room


async def test_stopped_claim_has_room(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        produce(cluster, 1, 20 * KIB)
        handler = Collector(lambda claim: False)
        member = await start_member(nursery, cluster, handler, **SMALL)
        await eventually(lambda: bool(handler.claims) and handler.claims[0].position == 20)
        handler.claims[0].hold(2048 * KIB)
        assert not handler.claims[0].has_room
        await member.close()
        assert handler.claims[0].has_room
