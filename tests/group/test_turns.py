"""Other tasks keep time while a handler has all it wants at hand. Real time, as a busy loop is what it is about."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable
from functools import partial

import pytest
import trio

from sarameya import Config
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.group.claim import Claim
from sarameya.group.stream import Stream
from sarameya.model import Message, TopicPartition
from sarameya.protocol.byte_budget import ByteBudget
from sarameya.protocol.fetch_cursor import FetchCursor, Records
from sarameya.protocol.records import build, split

Feed = Claim | Stream


def full_claim(batches: int, messages: int, number: int = 0) -> Claim:
    """A claim with so many record batches of so many messages at hand."""
    partition = TopicPartition("orders", number)
    consumer = PartitionConsumer(FetchCursor(partition, 0), 10, ByteBudget(2**30).open())
    claim = Claim(consumer, Config())
    data = b"".join(
        build([(0, None, b"x" * 50, ())] * messages, base_offset=number * messages) for number in range(batches)
    )
    consumer.deliver(Records(tuple(split(data, partition, 0)), len(data), 0))
    return claim


def full_stream(partitions: int, batches: int, messages: int) -> Stream:
    """A stream with the same at hand, of so many partitions."""
    stream = Stream(0, lambda claim: None)
    for number in range(partitions):
        stream._add(full_claim(batches // partitions, messages, number))
    return stream


FEEDS = {
    "claim": full_claim,
    "stream": partial(full_stream, 1),
    "stream of two": partial(full_stream, 2),
}
each_feed = pytest.mark.parametrize("full", FEEDS.values(), ids=FEEDS.keys())


async def turns_of_others(feed: AsyncIterable[Message], total: int, seconds_a_message: float) -> list[float]:
    """The times between two turns of another task while all `total` messages are taken and computed on."""
    gaps: list[float] = []

    async def others() -> None:
        last = time.perf_counter()
        while True:
            await trio.lowlevel.checkpoint()
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        taken = 0
        async for _ in feed:
            if seconds_a_message:
                until = time.perf_counter() + seconds_a_message
                while time.perf_counter() < until:
                    pass
            taken += 1
            if taken == total:
                break
        nursery.cancel_scope.cancel()
    return gaps


@each_feed
async def test_a_thousand_messages_and_not_many_fewer_are_handed_out_between_two_checkpoints(
    full: Callable[[int, int], Feed],
) -> None:
    for batches in (2, 20_000 // 50):
        gaps = await turns_of_others(full(batches, 20_000 // batches), 20_000, 0.0)
        # A busy machine makes turns shorter, since they are bounded by time as well.
        assert 19 <= len(gaps) <= 200


@each_feed
async def test_batches_are_handed_out_without_a_checkpoint_for_a_thousand_messages_or_one_of_them_at_most(
    full: Callable[[int, int], Feed],
) -> None:
    class Steps(trio.abc.Instrument):
        count = 0

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.count += task is me

    me, steps = trio.lowlevel.current_task(), Steps()
    trio.lowlevel.add_instrument(steps)
    taken = since = seen = 0
    async for batch in full(10, 10_000).batches():
        if steps.count != seen:
            seen, since = steps.count, 0
        assert since <= 1000
        since += len(batch)
        taken += len(batch)
        if taken == 100_000:
            break
    trio.lowlevel.remove_instrument(steps)


@pytest.mark.parametrize("seconds_a_message", [0.0005, 0.005])
async def test_handler_that_computes_long_on_each_message_lets_others_have_their_turn(
    seconds_a_message: float,
) -> None:
    total = int(1.0 / seconds_a_message)
    gaps = await turns_of_others(full_claim(1, total), total, seconds_a_message)
    # The first turns find out what fits; the machine may be busy, so that it is the median that is held to the bound.
    settled = sorted(gaps[3:])
    assert settled[len(settled) // 2] < max(0.03, 4 * seconds_a_message)


async def test_handler_that_was_quick_and_all_at_once_computes_long_is_noticed_within_a_piece_of_its_turn() -> None:
    claim = full_claim(1, 6000)
    gaps: list[float] = []

    async def others() -> None:
        while True:
            before = time.perf_counter()
            await trio.lowlevel.checkpoint()
            gaps.append(time.perf_counter() - before)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        async for message in claim:
            if message.offset >= 5200:  # in the middle of a turn, which began at about 5,000
                until = time.perf_counter() + 0.001
                while time.perf_counter() < until:
                    pass
            if message.offset == 5999:
                break
        nursery.cancel_scope.cancel()
    assert max(gaps) < 0.4, "of 800 ms in all"
