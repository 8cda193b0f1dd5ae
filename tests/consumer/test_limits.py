"""Limits for the effect of one partition on others: responses too large, and bytes that a handler keeps."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import BatchTooLargeError, Claim, ConsumerGroupHandler, Message, Session
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import FetchBufferFull, Retrying
from sarameya.protocol.records.batch_codec import build
from sarameya.protocol.records.compression import Codec
from tests.consumer.kit import watch_fetches
from tests.group.kit import Recorder, claim_failure, deadline, eventually, fill, orders, start_member


async def test_batch_too_large_for_a_response_fails_only_its_claim(
    autojump_clock: MockClock,
) -> None:
    class ReadsAll(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            try:
                await super().consume_claim(session, claim)
            except BatchTooLargeError as error:
                self.error = error
                await others_read.wait()
                raise

    others_read = trio.Event()
    async with orders(3) as cluster, deadline() as nursery:
        fill(cluster, 5, 1)
        cluster.produce("orders", 1, b"x" * 500_000)
        handler = ReadsAll()
        member = await start_member(
            nursery,
            cluster,
            handler,
            max_response_bytes=100_000,
            fetch_max_bytes=50_000,
            fetch_max_partition_bytes=20_000,
        )
        for partition in (0, 2):
            for _ in range(10):
                cluster.produce("orders", partition, b"y" * 10_000)
        await handler.received(25)
        await eventually(lambda: hasattr(handler, "error"))
        fill(cluster, 5, 0)
        fill(cluster, 5, 2)
        await handler.received(35)
        others_read.set()
        await member.ended.wait()
        error = claim_failure(member)
        assert isinstance(error, BatchTooLargeError)
        assert (error.topic, error.partition, error.offset) == ("orders", 1, 5)
        assert handler.offsets("orders", 1) == list(range(5))


async def test_partition_with_the_largest_allowed_fetch_is_read(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        for _ in range(100):
            cluster.produce("orders", 0, b"x" * 100)
        handler = Recorder()
        await start_member(nursery, cluster, handler, max_response_bytes=2000, fetch_max_partition_bytes=2000)
        await handler.received(100)


async def test_response_too_large_for_all_partitions_fails_none(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty partitions take 1,800 bytes of a response without a record; a record batch is 600."""
    fetches = watch_fetches(monkeypatch)
    async with orders(50) as cluster, deadline() as nursery:
        for _ in range(6):
            cluster.produce("orders", 7, b"x" * 530)
        handler = Recorder()
        await start_member(nursery, cluster, handler, max_response_bytes=2400, fetch_max_partition_bytes=2400)
        await handler.received(6)
        alone = [body for _, body in fetches.seen if body.session_epoch == -1]
        assert {
            (body.max_bytes, p.partition_max_bytes) for body in alone for t in body.topics for p in t.partitions
        } == {(1, 1)}, "one record batch each"


async def test_giant_records_delay_no_other_partition(
    autojump_clock: MockClock,
) -> None:
    """A record twice as large as the whole budget, and one of 10,000 headers that is small while compressed."""

    async def wait_on_giants(session: Session, claim: Claim, message: Message) -> None:
        if claim.partition < 2:
            await released.wait()

    released = trio.Event()
    headers = tuple((f"header-{number}", b"") for number in range(10_000))
    async with orders(3) as cluster, deadline() as nursery:
        cluster.append_raw("orders", 0, build([(0, None, b"x" * 16_000_000, ())]), last_offset=0)
        cluster.append_raw("orders", 1, build([(0, None, b"x", headers)] * 20, codec=Codec.ZSTD), last_offset=19)
        handler = Recorder(wait_on_giants)
        member = await start_member(nursery, cluster, handler, fetch_buffer_bytes=8_000_000)
        await eventually(lambda: len(handler.messages) == 2)
        for _ in range(100):
            cluster.produce("orders", 2, b"y" * 10_000)
            await trio.sleep(0.1)
        assert handler.offsets("orders", 2) == list(range(100))
        # The giant record as received and as decoded, and twenty times ten thousand headers.
        assert member.group.buffered_bytes > 2 * 16_000_000 + 20 * 10_000 * 100, "all held bytes are counted"
        released.set()
        await handler.received(121)
        await eventually(lambda: member.group.buffered_bytes == 0)


async def test_exhausted_budget_is_reported_once_until_released(
    autojump_clock: MockClock,
) -> None:
    """Batches of 2 kB, and half a kilobyte of the budget for each of a hundred partitions."""

    async def stuck_on_most(session: Session, claim: Claim, message: Message) -> None:
        if claim.partition < 60:
            await released.wait()

    released = trio.Event()
    async with orders(100) as cluster, deadline() as nursery:
        for partition in range(100):
            for _ in range(5):
                cluster.produce("orders", partition, b"x" * 2000)
        handler = Recorder(stuck_on_most)
        member = await start_member(nursery, cluster, handler, fetch_buffer_bytes=100_000)
        await trio.sleep(60)
        assert len(handler.messages) < 500 - 60 * 4
        [event] = member.seen(FetchBufferFull)
        assert event.buffered > 90_000
        released.set()
        await handler.received(500)


async def test_empty_response_that_is_too_large_backs_off(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response for fifty quiet partitions exceeds the limit."""
    fetches = watch_fetches(monkeypatch)
    async with orders(50) as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Recorder(), max_response_bytes=1500)
        await trio.sleep(10)
        before = len(fetches.seen)
        await trio.sleep(10)
        assert len(fetches.seen) - before < 10 / 0.3 * 51, "51 requests, then a backoff of half a second minus jitter"
        assert any("exceeds max_response_bytes" in event.cause for event in member.seen(Retrying))


async def test_held_bytes_delay_only_their_partition(autojump_clock: MockClock) -> None:
    class Keeps(ConsumerGroupHandler):
        """Holds the bytes of partition 0 until `released`."""

        def __init__(self) -> None:
            self.taken = [0, 0]

        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                self.taken[claim.partition] += 1
                if claim.partition == 0 and not released.is_set():
                    claim.hold(len(message.value or b""))
                    kept.append(len(message.value or b""))

    kept: list[int] = []
    released = trio.Event()
    cluster = EmbeddedCluster(topics={"orders": 2}, in_memory=True, seed=1)
    async with cluster, deadline() as nursery:
        for partition in range(2):
            for _ in range(200):
                cluster.produce("orders", partition, b"x" * 1000)
        handler = Keeps()
        member = await start_member(
            nursery, cluster, handler, fetch_buffer_bytes=100_000, fetch_max_partition_bytes=10_000
        )
        await trio.sleep(60)
        assert handler.taken[1] == 200
        assert 25 <= handler.taken[0] <= 110
        assert member.group.buffered_bytes <= 110_000
        await member.close()
        assert member.group.buffered_bytes == 0


async def test_bytes_released_for_one_broker_allow_fetches_of_another(autojump_clock: MockClock) -> None:
    """Partition 0 holds more than its share, which leaves no room for partition 1 of another broker."""

    class Keeps(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            claims[claim.partition] = claim
            claim.hold((45_000, 30_000)[claim.partition])
            await super().consume_claim(session, claim)

    claims: dict[int, Claim] = {}
    async with orders(2, brokers=2) as cluster, deadline() as nursery:
        handler = Keeps()
        await start_member(nursery, cluster, handler, fetch_buffer_bytes=100_000, fetch_max_partition_bytes=10_000)
        for _ in range(2):  # a fetch sent before the claims held bytes still returns the first message
            await trio.sleep(5)
            fill(cluster, 1, 1)
        await trio.sleep(30)
        assert len(handler.messages) <= 1
        claims[0].release(45_000)
        await handler.received(2)
