"""`BatchHandler`: size, age and order of batches, and failed batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from sarameya import BatchHandler, ConfigError, DeadLetterTopic, Message, MessageHandler, Retry, TimestampType
from sarameya.handling.batches import Batches
from sarameya.testing import ClaimFeed


class Collects(BatchHandler):
    """A handler that records the offsets and the time of each batch."""

    batch_size = 10
    batch_age = 5

    def __init__(self, seconds: float = 0) -> None:
        self.seconds = seconds
        self.batches: list[list[int]] = []
        self.times: list[float] = []
        self.running = self.most_running = 0

    async def handle_batch(self, messages: Sequence[Message]) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.batches.append([message.offset for message in messages])
        self.times.append(trio.current_time())
        await trio.sleep(self.seconds)
        self.running -= 1


def feed_of(count: int, keys: int = 0) -> ClaimFeed:
    feed = ClaimFeed("orders")
    for number in range(count):
        feed.send(b"%d" % number, key=b"%d" % (number % keys) if keys else None)
    return feed


async def test_batches_are_complete_by_size_or_by_age(autojump_clock: MockClock) -> None:
    handler, feed = Collects(), feed_of(25)
    feed.end()
    began = trio.current_time()
    await feed.run(handler)
    assert handler.batches == [[*range(10)], [*range(10, 20)], [*range(20, 25)]]
    assert [time - began for time in handler.times] == pytest.approx([0, 0, 5], abs=0.1)
    assert feed.committed == 25


async def test_age_counts_from_the_first_message(autojump_clock: MockClock) -> None:
    handler, feed = Collects(), ClaimFeed("orders")
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        began = trio.current_time()
        for _ in range(4):
            feed.send(b"")
            await trio.sleep(3)
        feed.end()
    assert handler.batches == [[0, 1], [2, 3]]
    assert [time - began for time in handler.times] == pytest.approx([5, 11], abs=0.1)


@pytest.mark.parametrize(("ordering", "most"), [("partition", 1), ("none", 3)])
async def test_ordering_limits_the_concurrent_batches(autojump_clock: MockClock, ordering: str, most: int) -> None:
    handler, feed = Collects(seconds=10), feed_of(60)
    handler.ordering, handler.concurrency = ordering, 3  # type: ignore[assignment]
    feed.end()
    await feed.run(handler)
    assert handler.most_running == most
    assert sorted(offset for batch in handler.batches for offset in batch) == [*range(60)]
    assert {len(batch) for batch in handler.batches} == {10}
    assert feed.committed == 60


class ByKey(Collects):
    """A handler that checks that no two concurrent batches have a key in common."""

    ordering = "key"
    concurrency = 3

    def __init__(self) -> None:
        super().__init__()
        self.handled: dict[bytes | None, list[int]] = defaultdict(list)
        self.keys: set[bytes | None] = set()

    async def handle_batch(self, messages: Sequence[Message]) -> None:
        keys = {message.key for message in messages}
        assert not keys & self.keys
        self.keys |= keys
        await super().handle_batch(messages)
        await trio.sleep(len(messages) % 3)
        self.keys -= keys
        for message in messages:
            self.handled[message.key].append(message.offset)


async def test_messages_of_a_key_are_in_one_batch_at_a_time_in_order(autojump_clock: MockClock) -> None:
    handler, feed = ByKey(), feed_of(300, keys=20)
    feed.end()
    await feed.run(handler)
    assert handler.most_running == 3
    assert all(offsets == [*range(int(key or b""), 300, 20)] for key, offsets in handler.handled.items())
    assert feed.committed == 300


class Refuses(BatchHandler[int]):
    """A handler that fails for each batch with a number below 0."""

    batch_size = 5
    batch_age = 1
    retry = Retry(attempts=2, backoff=0.1)
    dead_letters = DeadLetterTopic()

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    async def handle_batch(self, messages: Sequence[Message[int]]) -> None:
        self.calls.append([message.value for message in messages])
        if min(message.value for message in messages) < 0:
            raise ValueError("below 0")


async def test_only_failing_messages_of_a_batch_become_dead_letters(autojump_clock: MockClock) -> None:
    handler, feed = Refuses(), ClaimFeed("orders")
    for number in (1, 2, -3, 4, 5, 6):
        feed.send(b"%d" % number)
    feed.end()
    await feed.run(handler)
    whole = [1, 2, -3, 4, 5]
    assert handler.calls == [whole, whole, [1], [2], [-3], [-3], [4], [5], [6]]
    assert [record.value for record in feed.sent] == [b"-3"]
    assert feed.committed == 6


async def test_undecodable_messages_are_left_out_of_a_batch(autojump_clock: MockClock) -> None:
    handler, feed = Refuses(), ClaimFeed("orders")
    for value in (b"1", b"two", b"3", b"four", b"5"):
        feed.send(value)
    feed.end()
    await feed.run(handler)
    assert handler.calls == [[1, 3, 5]]
    assert [record.value for record in feed.sent] == [b"two", b"four"]
    assert feed.committed == 5


async def test_batch_of_undecodable_messages_is_not_handled(autojump_clock: MockClock) -> None:
    handler, feed = Refuses(), ClaimFeed("orders")
    for _ in range(5):
        feed.send(b"?")
    feed.end()
    await feed.run(handler)
    assert handler.calls == []
    assert len(feed.sent) == feed.committed == 5


async def test_incomplete_batch_is_left_to_the_next_owner(autojump_clock: MockClock) -> None:
    handler, feed = Collects(), feed_of(13)
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(1)
        feed.end(now=True)
    assert handler.batches == [[*range(10)]]
    assert feed.committed == 10


class Busy(MessageHandler):
    ordering = "key"
    concurrency = 10
    partition_concurrency = 2

    def __init__(self) -> None:
        self.running = self.most_running = 0

    async def handle(self, message: Message) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await trio.sleep(1)
        self.running -= 1


async def test_partition_respects_its_own_concurrency_limit(autojump_clock: MockClock) -> None:
    handler, feed = Busy(), feed_of(40, keys=20)
    feed.end()
    await feed.run(handler)
    assert handler.most_running == 2


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [("batch_size", 0, "whole number"), ("batch_age", 0, "seconds above 0"), ("batch_age", None, "seconds above 0")],
)
async def test_wrong_option_of_batches_is_refused(option: str, value: object, reason: str) -> None:
    handler = Collects()
    setattr(handler, option, value)
    with pytest.raises(ConfigError, match=reason):
        await ClaimFeed("orders").run(handler)


def test_batches_keep_key_groups_and_count_age_from_first_message() -> None:
    batches = Batches("key", size=3, age=10.0, at_once=2)
    messages = [
        Message("t", 0, offset, 0, TimestampType.CREATE_TIME, b"%d" % (offset % 4), None) for offset in range(40)
    ]
    complete = [
        (now, batch) for now, message in enumerate(messages) if (batch := batches.add(message, float(now))) is not None
    ]
    assert all(len(batch) == 3 and batch[-1].offset == now for now, batch in complete)
    groups = [{batches.group_of(message) for message in batch} for _, batch in complete]
    assert all(len(group) == 1 for group in groups)
    left = 40 - 3 * len(complete)
    assert (batches.due is None) == (left == 0)
    assert sum(len(batch) for batch in batches.pop_due(1000.0)) == left
    assert batches.due is None


@pytest.mark.parametrize(("ordering", "size"), [("partition", 5000), ("none", 5000), ("key", 100)])
async def test_batch_without_room_to_grow_does_not_wait_for_its_age(
    autojump_clock: MockClock, ordering: str, size: int
) -> None:
    """A partition has room for about a thousand unfinished messages. Ordering by key divides them into 16 groups."""
    handler, feed = Collects(), feed_of(6000, keys=997)
    handler.ordering, handler.batch_size, handler.batch_age = ordering, size, 60  # type: ignore[assignment]
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(59)
        assert sum(map(len, handler.batches)) > 4500
        feed.end()
    assert trio.current_time() - began < 61
    assert max(map(len, handler.batches)) > 50
    assert feed.committed == 6000
