"""The time that counts as a handler's work: from receiving records to requesting more. Virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Activity,
    Claim,
    ConsumerGroupHandler,
    ConsumerInterceptor,
    Message,
    MessageBatch,
    Session,
    Stream,
    StreamHandler,
)
from tests.group.kit import Running, deadline, eventually, fill, orders, start_member


class TakesTime(ConsumerInterceptor):
    """An interceptor that stands for all work before the handler: decompressing, decoding, intercepting."""

    def __init__(self, clock: MockClock) -> None:
        self.seconds = 0.0
        self._clock = clock

    def on_consume(self, batch: MessageBatch) -> MessageBatch:
        self._clock.jump(7.0)
        self.seconds += 7.0
        return batch


class Works(ConsumerGroupHandler):
    """A handler that works for a quarter of a second per message, without a checkpoint."""

    def __init__(self, clock: MockClock, *, by_batches: bool) -> None:
        self.seconds = 0.0
        self.taken = 0
        self._clock = clock
        self._by_batches = by_batches

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        if self._by_batches:
            async for batch in claim.batches():
                self.work(len(batch))
        else:
            async for _ in claim:
                self.work(1)

    def work(self, count: int) -> None:
        self._clock.jump(0.25 * count)
        self.seconds += 0.25 * count
        self.taken += count


def handler_seconds(member: Running) -> float:
    return sum(one.handler_seconds for one in member.group.status().partitions)


@pytest.mark.parametrize("by_batches", [False, True], ids=["messages", "batches"])
async def test_handler_seconds_exclude_fetching_and_decoding(autojump_clock: MockClock, by_batches: bool) -> None:
    async with orders(1) as cluster, deadline(10_000) as nursery:
        for _ in range(20):
            cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        before, handler = TakesTime(autojump_clock), Works(autojump_clock, by_batches=by_batches)
        options = {"max_processing_time": 1000.0, "session_timeout": 1000.0, "rebalance_timeout": 2000.0}
        member = await start_member(nursery, cluster, handler, interceptors=[before], **options)
        await eventually(lambda: handler.taken == 200)
        assert handler.seconds == 50
        assert before.seconds >= 7
        assert handler_seconds(member) == pytest.approx(50)
        await member.close()
        assert member.group.meters.topics["orders"].handler_seconds == pytest.approx(50)


class OneAtATime(StreamHandler):
    """A handler that works for ten seconds per message, one message at a time."""

    streams = 1

    def __init__(self) -> None:
        self.partitions: list[int] = []

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        async for message in stream:
            assert isinstance(message, Message)
            self.partitions.append(message.partition)
            await trio.sleep(10)


async def test_handler_seconds_of_a_stream_count_for_its_current_claim(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        for partition in range(4):
            fill(cluster, 1, partition)
        handler = OneAtATime()
        member = await start_member(nursery, cluster, handler, max_processing_time=1000.0)
        for held in range(1, 5):
            await eventually(lambda count=held: len(handler.partitions) == count)  # type: ignore[misc]
            await trio.sleep(5)
            at_work = [
                one.partition.partition
                for one in member.group.status().partitions
                if one.activity is Activity.IN_HANDLER
            ]
            assert at_work == handler.partitions[-1:]
        await trio.sleep(20)
        assert [one.handler_seconds for one in member.group.status().partitions] == pytest.approx([10.0] * 4)
        assert not [one for one in member.group.status().partitions if one.activity is not Activity.FETCHING]
        await member.close()
