"""Handlers that collect: what they keep counts towards the budget, and they are told when to wait no longer."""

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
    """Keeps what it reads, and lands all that it keeps of a partition, in `landing` seconds, when `is_due`."""

    def __init__(self, is_due: Callable[[Claim], bool], landing: float = 0.0) -> None:
        self.claims: dict[int, Claim] = {}
        self.landed = 0
        self.landings: list[int] = []
        self._is_due = is_due
        self._landing = landing

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        self.claims[claim.partition] = claim
        kept: list[MessageBatch] = []
        async for batch in claim.batches():
            kept.append(batch)
            claim.hold(batch.size_bytes)
            if self._is_due(claim):
                await trio.sleep(self._landing)
                size = sum(one.size_bytes for one in kept)
                claim.release(size)
                self.landings.append(size)
                self.landed += sum(map(len, kept))
                kept = []


def produce(cluster: EmbeddedCluster, partitions: int, size: int) -> None:
    """Produce `size` bytes to each partition, in record batches of 10 KiB."""
    for number in range(partitions):
        for _ in range(size // (10 * KIB)):
            cluster.produce_many("orders", number, [(None, b"x" * KIB)] * 10)


SMALL = {"fetch_buffer_bytes": 1024 * KIB, "fetch_max_partition_bytes": 64 * KIB}


@pytest.mark.parametrize("landing", [0.0, 3.0], ids=["at once", "slowly"])
@pytest.mark.parametrize(("partitions", "brokers"), [(1, 1), (6, 2), (40, 3)])
async def test_collectors_that_land_when_told_get_all_there_is(
    autojump_clock: MockClock, partitions: int, brokers: int, landing: float
) -> None:
    """Nobody has anything else to go by: no age, no number of rows."""
    each = 4096 * KIB // partitions
    async with orders(partitions, brokers) as cluster, deadline(3000) as nursery:
        produce(cluster, partitions, each)
        handler = Collector(lambda claim: not claim.has_room, landing)
        member = await start_member(nursery, cluster, handler, **SMALL)
        await eventually(
            lambda: sum(claim.position for claim in handler.claims.values()) == each // (10 * KIB) * 10 * partitions
        )
        assert handler.landed > 0
        assert member.group.buffered_bytes <= 1024 * KIB * 1.5
        await member.close()
    share = 512 * KIB // partitions
    usual = sorted(handler.landings)[len(handler.landings) // 2]
    assert usual >= min(share, each) / 2, "nobody lands for a fetch that is there already, or on its way"


async def test_collectors_that_do_not_look_wait_for_ever(autojump_clock: MockClock) -> None:
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


async def test_one_that_keeps_much_is_told_and_its_neighbours_are_not(autojump_clock: MockClock) -> None:
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


async def test_claim_that_has_ended_has_room(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        produce(cluster, 1, 20 * KIB)
        handler = Collector(lambda claim: False)
        member = await start_member(nursery, cluster, handler, **SMALL)
        await eventually(lambda: bool(handler.claims) and handler.claims[0].position == 20)
        handler.claims[0].hold(2048 * KIB)
        assert not handler.claims[0].has_room
        await member.close()
        assert handler.claims[0].has_room
