"""PartitionConsumer by itself: room, notifications, errors and pauses."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import RequestTimeoutError, TopicPartition
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.fetch.fetch_cursor import FetchCursor, Records


class Feed:
    """A consumer with room for two fetches, and the notifications of its two sides."""

    def __init__(self) -> None:
        self.notifications: list[str] = []
        self.consumer = PartitionConsumer(FetchCursor(TopicPartition("orders", 0), 0), 2, ByteBudget(2**20).open())
        self.consumer.on_change = lambda: self.notifications.append("change")
        self.consumer.on_arrival = lambda: self.notifications.append("arrival")

    def receive(self) -> int | None:
        records = self.consumer.receive_nowait()
        return None if records is None else records.position


def records(position: int) -> Records:
    return Records((), 0, position)


async def test_feed_delivers_in_order_and_notifies_both_sides() -> None:
    feed = Feed()
    assert feed.receive() is None
    feed.consumer.deliver(records(0))
    feed.consumer.deliver(records(5))
    assert not feed.consumer.has_room
    assert [feed.receive(), feed.receive(), feed.receive()] == [0, 5, None]
    assert feed.notifications == ["arrival", "arrival", "change", "change"]


async def test_feed_error_follows_the_records_and_repeats() -> None:
    feed = Feed()
    error = RequestTimeoutError("too late")
    feed.consumer.deliver(records(0))
    feed.consumer.deliver(records(5))
    feed.consumer.fail(error)
    assert [feed.receive(), feed.receive()] == [0, 5]
    raised = []
    for _ in range(3):
        with pytest.raises(RequestTimeoutError, match="too late") as caught:
            feed.receive()
        raised.append(caught.value)
    assert raised[0] is error
    assert len({id(one) for one in raised}) == 3, "tracebacks do not pile up on one object"


async def test_ended_feed_drops_buffered_and_new_records() -> None:
    feed = Feed()
    feed.consumer.deliver(records(0))
    feed.consumer.end()
    feed.consumer.deliver(records(5))
    assert feed.receive() is None
    assert feed.notifications == ["arrival", "arrival"]


async def test_full_feed_is_backpressured_unless_paused(
    autojump_clock: MockClock,
) -> None:
    consumer = Feed().consumer

    def held() -> bool:
        return consumer.is_full_briefly(trio.current_time(), 10.0)

    assert (consumer.is_wanted, held()) == (True, False)
    consumer.deliver(records(0))
    consumer.deliver(records(5))
    await trio.sleep(6)
    assert (consumer.is_wanted, held()) == (False, True)
    consumer.pause()
    assert (consumer.is_wanted, held()) == (False, False)
    await trio.sleep(6)
    consumer.resume()
    assert (consumer.is_wanted, held()) == (False, True), "a resumed partition gets the full time limit again"
    await trio.sleep(11)
    assert (consumer.is_wanted, held()) == (False, False)


async def test_resumed_feed_notifies_both_sides() -> None:
    feed = Feed()
    feed.consumer.source.found(records=False)
    feed.consumer.pause()
    assert (feed.consumer.is_paused, feed.consumer.is_wanted) == (True, False)
    feed.consumer.resume()
    assert (feed.consumer.is_paused, feed.consumer.is_wanted) == (False, True)
    assert not feed.consumer.source.found_nothing
    assert feed.notifications == ["change", "change", "arrival"]
