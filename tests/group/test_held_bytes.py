"""Each claim releases all bytes that it holds of `fetch_buffer_bytes`, exactly once, however it stops.

Every test that starts a member also checks that nothing is held after its end (`kit.start_member`).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    Config,
    ConsumerGroup,
    ConsumerGroupHandler,
    RequestTimeoutError,
    Session,
    Stream,
    StreamHandler,
    TopicPartition,
)
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.embedded import EmbeddedCluster
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.fetch.fetch_cursor import FetchCursor, Records
from sarameya.protocol.records.batch_codec import build, split
from sarameya.protocol.records.compression import Codec
from sarameya.testing import run_inline
from tests.group.kit import Recorder, assert_given_back, budget_of, deadline, orders


class StuckClaims(ConsumerGroupHandler):
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for _ in claim:
            await trio.sleep_forever()


class StuckStreams(StreamHandler):
    streams = 4

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        async for _ in stream:
            await trio.sleep_forever()


def produce(cluster: EmbeddedCluster, partitions: int, count: int) -> None:
    for partition in range(partitions):
        for _ in range(count):
            cluster.produce("orders", partition, b"x" * 1000)


@pytest.mark.parametrize("stuck", [StuckClaims, StuckStreams])
async def test_cancelled_consume_loses_no_message(
    autojump_clock: MockClock, stuck: Callable[[], ConsumerGroupHandler]
) -> None:
    config = Config(offset_initial="oldest", fetch_buffer_bytes=100_000, fetch_max_partition_bytes=10_000)
    async with orders(8) as cluster, deadline(3000):
        produce(cluster, 8, 40)
        servers, transport = cluster.bootstrap_servers, cluster.transport
        async with ConsumerGroup(servers, "g", config, transport=transport, run_sync=run_inline) as group:
            for _ in range(5):
                with trio.move_on_after(5):
                    await group.consume(["orders"], stuck())
                assert group.buffered_bytes == 0
                assert_given_back(budget_of(group))
            handler = Recorder()
            with trio.move_on_after(20):
                await group.consume(["orders"], handler)
            assert len(handler.messages) == 320


def claim_of(data: bytes, budget: ByteBudget, number: int = 0) -> Claim:
    partition = TopicPartition("orders", number)
    consumer = PartitionConsumer(FetchCursor(partition, 0), 2, budget.open())
    claim = Claim(consumer, Config())
    consumer.deliver(Records(tuple(split(data, partition, 0)), len(data), 0))
    return claim


async def test_decompressed_bytes_are_held_until_the_batch_is_processed() -> None:
    budget = ByteBudget(2**30)
    claim = claim_of(build([(0, None, b"x" * 100, ())] * 5000, codec=Codec.ZSTD), budget)
    messages = aiter(claim)
    for _ in range(2000):
        await anext(messages)
    assert budget.held > 5000 * 100
    for _ in range(3000):
        await anext(messages)
    with trio.move_on_after(0.01):
        await anext(messages)
    assert budget.held == 0


@pytest.mark.parametrize("by_batches", [False, True], ids=["messages", "batches"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=["plain", "zstd"])
async def test_decoded_bytes_are_held_in_addition_to_fetched_bytes(codec: Codec, by_batches: bool) -> None:
    """Messages have two sizes, the first one is small. Each counts with more than its key and value."""
    budget = ByteBudget(2**30)
    records = [(0, b"k" * 50, b"x" * (3000 if number % 2 else 100), ()) for number in range(100)]
    data = build(records, codec=codec)
    claim = claim_of(data, budget)
    await anext(claim.batches() if by_batches else aiter(claim))
    keys_and_values = 100 * 50 + 50 * 3100
    assert keys_and_values + 100 * 100 < budget.held - len(data) < keys_and_values + 100 * 400


async def test_headers_of_compressed_messages_are_held_too() -> None:
    budget = ByteBudget(2**30)
    headers = tuple((f"header-{number}", b"y" * 100) for number in range(20))
    claim = claim_of(build([(0, None, b"x", headers)] * 50, codec=Codec.ZSTD), budget)
    await anext(aiter(claim))
    assert budget.held > 50 * 20 * 200


async def test_stream_releases_processed_bytes_of_a_waiting_claim(
    autojump_clock: MockClock,
) -> None:
    class OneBatchEach(StreamHandler):
        async def consume_stream(self, session: Session, stream: Stream) -> None:
            async for batch in stream.batches():
                if not held:
                    await trio.sleep(5)  # until several fetches of each claim are buffered
                held.append(group.buffered_bytes)
                if len(held) == 8:
                    done.set()
                    await trio.sleep_forever()
                del batch

    held: list[int] = []
    done = trio.Event()
    config = Config(offset_initial="oldest", fetch_max_partition_bytes=1000, channel_buffer_fetches=1)
    async with orders(8) as cluster, deadline() as nursery:
        produce(cluster, 8, 5)
        servers, transport = cluster.bootstrap_servers, cluster.transport
        async with ConsumerGroup(servers, "g", config, transport=transport, run_sync=run_inline) as group:
            nursery.start_soon(group.consume, ["orders"], OneBatchEach())
            await done.wait()
            assert held[-1] <= held[0], "buffered bytes of each claim, decoded ones only of the claim that is read"
            nursery.cancel_scope.cancel()


async def test_batch_set_aside_by_a_pause_stays_held(
    autojump_clock: MockClock,
) -> None:
    budget, stream = ByteBudget(2**30), Stream(0, lambda claim: None)
    for number in range(2):
        stream._add(claim_of(build([(0, None, b"x" * 1000, ())] * 10), budget, number))
    messages = aiter(stream)
    assert (await anext(messages)).partition == 0
    paused = stream.claims[TopicPartition("orders", 0)]
    before = paused._consumer.share.held
    paused._set_paused(True)
    assert [(await anext(messages)).partition for _ in range(10)] == [1] * 10
    assert paused._consumer.share.held == before
    paused._set_paused(False)
    assert [(await anext(messages)).offset for _ in range(9)] == list(range(1, 10))
    with trio.move_on_after(1):
        await anext(messages)
    assert budget.held == 0


async def test_handler_releases_no_more_than_it_holds() -> None:
    budget = ByteBudget(2**30)
    claim = claim_of(build([(0, None, b"x", ())]), budget)
    before = budget.held
    claim.hold(100)
    with pytest.raises(ValueError, match="101 bytes: orders-0 holds 100"):
        claim.release(101)
    with pytest.raises(ValueError, match="at least 0"):
        claim.hold(-1)
    claim.release(60)
    with pytest.raises(ValueError, match="orders-0 holds 40"):
        claim.release(-5)
    claim.release(40)
    assert budget.held == before


async def test_claim_read_after_its_failure_releases_its_bytes_once() -> None:
    budget = ByteBudget(2**20)
    data = build([(0, None, b"x" * 100, ())] * 10)
    claim = claim_of(data, budget)
    claim._consumer.fail(RequestTimeoutError("too late"))
    assert [(await anext(aiter(claim))).offset for _ in range(10)] == list(range(10))
    assert budget.held > len(data)
    for _ in range(3):
        with pytest.raises(RequestTimeoutError):
            await anext(aiter(claim))
        assert budget.held == 0
