"""What claims hold of the byte budget: all of it is given back, once, however they end.

That nothing of it is held when a member has ended is checked by every test that starts one (`kit.start_member`).
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
from sarameya.protocol.byte_budget import ByteBudget
from sarameya.protocol.fetch_cursor import FetchCursor, Records
from sarameya.protocol.records import build, split
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
async def test_calls_that_are_cancelled_leave_the_next_one_all_there_is(
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


async def test_claim_that_is_read_again_after_its_failure_gives_back_once_what_it_had_fetched() -> None:
    partition = TopicPartition("orders", 0)
    budget = ByteBudget(2**20)
    consumer = PartitionConsumer(FetchCursor(partition, 0), 2, budget.open())
    claim = Claim(consumer, Config())
    data = build([(0, None, b"x" * 100, ())] * 10)
    consumer.deliver(Records(tuple(split(data, partition, 0)), len(data), 0))
    consumer.fail(RequestTimeoutError("too late"))
    assert [(await anext(aiter(claim))).offset for _ in range(10)] == list(range(10))
    assert budget.held > len(data)
    for _ in range(3):
        with pytest.raises(RequestTimeoutError):
            await anext(aiter(claim))
        assert budget.held == 0
