"""`Claim.concurrently`: messages that finish in any order, their commits, and what the next owner repeats."""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ClaimError, Config, ConsumerGroupHandler, Message, Session
from sarameya.group.claim import ConcurrentMessages
from sarameya.protocol.completion_tracker import is_completion
from sarameya.testing import ClaimFeed
from tests.group.kit import orders
from tests.group.standalone_kit import Watched


class Concurrent(ConsumerGroupHandler):
    """A handler that processes each message for as many seconds as its value says, or forever if that is `never`."""

    def __init__(self, limit: int = 10) -> None:
        self.limit = limit
        self.started: list[int] = []
        self.finished: list[int] = []

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async with trio.open_nursery() as nursery:
            async for message in claim.concurrently(self.limit):
                nursery.start_soon(self.process, session, message)

    async def process(self, session: Session, message: Message) -> None:
        self.started.append(message.offset)
        assert message.value is not None
        await trio.sleep(math.inf if message.value == b"never" else float(message.value))
        self.finished.append(message.offset)
        session.mark_message(message)


def feed_of(*values: bytes, config: Config | None = None) -> ClaimFeed:
    feed = ClaimFeed(config=config)
    for value in values:
        feed.send(value)
    return feed


async def run_for(seconds: float, feed: ClaimFeed, handler: ConsumerGroupHandler) -> None:
    """Run a session that ends after some seconds."""
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(seconds)
        feed.end(now=True)


async def test_messages_finish_in_any_order(autojump_clock: MockClock) -> None:
    feed, handler = feed_of(b"3", b"1", b"2"), Concurrent()
    feed.end()
    await feed.run(handler)
    assert handler.finished == [1, 2, 0]
    assert feed.committed == 3


async def test_commit_stays_at_the_first_unfinished_message(autojump_clock: MockClock) -> None:
    feed = feed_of(b"1", b"never", b"1")
    await run_for(5, feed, Concurrent())
    assert feed.commit is not None
    assert feed.commit.offset == 1
    assert is_completion(feed.commit.metadata)


async def test_next_owner_repeats_only_unfinished_messages(autojump_clock: MockClock) -> None:
    feed = feed_of(b"1", b"never", b"1", b"never", b"1")
    await run_for(5, feed, Concurrent())
    feed.send(b"1")
    await run_for(5, feed, second := Concurrent())
    assert sorted(second.started) == [1, 3, 5]


async def test_autocommit_commits_finished_messages(autojump_clock: MockClock) -> None:
    feed, handler = feed_of(b"1", b"100", b"1"), Concurrent()
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(3 * feed.config.autocommit_interval)
        assert feed.committed == 1
        assert feed.commit is not None
        assert is_completion(feed.commit.metadata)
        feed.end()


async def test_limit_bounds_the_messages_in_flight(autojump_clock: MockClock) -> None:
    feed, handler = feed_of(*[b"1"] * 10), Concurrent(limit=3)
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(0.5)
        assert sorted(handler.started) == [0, 1, 2]
        await trio.sleep(1)
        assert sorted(handler.started) == [0, 1, 2, 3, 4, 5]
        feed.end()
    assert feed.committed == 10


async def test_iterator_waiting_for_its_limit_ends_with_the_claim(autojump_clock: MockClock) -> None:
    feed, handler = feed_of(b"never", b"1"), Concurrent(limit=1)
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(1)
        feed.end(now=True)
    assert handler.started == [0]
    assert feed.committed == 0


async def test_large_messages_are_bounded_by_the_byte_budget(autojump_clock: MockClock) -> None:
    config = Config(fetch_buffer_bytes=4_000_000, fetch_max_bytes=1_000_000, fetch_max_partition_bytes=1_000_000)
    feed, handler = ClaimFeed(config=config), Concurrent(limit=100)
    for _ in range(40):
        feed.send(b"10", key=bytes(300_000))
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(1)
        assert 2 <= len(handler.started) <= 10
        feed.end()
    assert len(handler.finished) == 40
    assert feed.committed == 40


async def test_failure_commits_finished_messages(autojump_clock: MockClock) -> None:
    feed = feed_of(b"2", b"1", b"no number")
    with pytest.raises(ExceptionGroup) as raised:
        await feed.run(Concurrent(limit=2))
    assert raised.group_contains(ClaimError)
    assert feed.commit is not None
    assert feed.commit.offset == 0
    second = Concurrent(limit=1)
    with pytest.raises(ExceptionGroup):
        await feed.run(second)
    assert second.started == [0, 2]
    assert feed.committed == 2


async def test_messages_deleted_meanwhile_are_not_awaited(autojump_clock: MockClock) -> None:
    feed = feed_of(b"never", b"1", b"never", b"1", config=Config(offset_out_of_range="oldest"))
    await run_for(5, feed, Concurrent())
    feed.send(b"1")
    feed.delete_before(3)
    feed.end()
    await feed.run(second := Concurrent())
    assert second.started == [4]
    assert feed.commit is not None
    assert (feed.commit.offset, feed.commit.metadata) == (5, "")


async def test_marks_before_an_offset_finish_all_messages_before_it(autojump_clock: MockClock) -> None:
    class MarksOffset(Concurrent):
        async def process(self, session: Session, message: Message) -> None:
            if message.offset == 2:
                session.mark_offset(message.topic, message.partition, 2)

    feed = feed_of(b"1", b"1", b"1")
    await run_for(5, feed, MarksOffset())
    assert feed.committed == 2


async def test_mark_before_an_offset_makes_room_for_more_messages(autojump_clock: MockClock) -> None:
    class MarksTwo(Concurrent):
        async def process(self, session: Session, message: Message) -> None:
            self.started.append(message.offset)
            await trio.sleep(1)
            if message.offset % 2:
                session.mark_offset(message.topic, message.partition, message.offset + 1)

    feed, handler = feed_of(*[b"1"] * 6), MarksTwo(limit=2)
    await run_for(10, feed, handler)
    assert sorted(handler.started) == [0, 1, 2, 3, 4, 5]
    assert feed.committed == 6


async def test_metadata_of_the_handler_is_refused(autojump_clock: MockClock) -> None:
    class MarksWithMetadata(Concurrent):
        async def process(self, session: Session, message: Message) -> None:
            with pytest.raises(ValueError, match="has metadata of its own"):
                session.mark_message(message, "mine")
            session.mark_message(message)

    feed = feed_of(b"1")
    feed.end()
    await feed.run(MarksWithMetadata())
    assert feed.committed == 1


class Shared(ConsumerGroupHandler):
    """Ten tasks share the iterator. Each message takes a second."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running = self.most = self.ended = 0

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        messages = claim.concurrently(self.limit)
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(self.work, session, messages)

    async def work(self, session: Session, messages: ConcurrentMessages) -> None:
        async for message in messages:
            self.running += 1
            self.most = max(self.most, self.running)
            await trio.sleep(1)
            self.running -= 1
            session.mark_message(message)
        self.ended += 1


@pytest.mark.parametrize("limit", [1, 3, 5, 10, 50])
async def test_several_tasks_share_the_iterator(autojump_clock: MockClock, limit: int) -> None:
    feed, handler = feed_of(*[b""] * 100, config=Config(claim_grace=30)), Shared(limit)
    await run_for(5.5, feed, handler)
    assert handler.most == min(limit, 10)
    assert handler.ended == 10
    assert feed.committed == 6 * min(limit, 10)
    assert trio.current_time() < 8, "no task waits until the grace is over"


async def test_threads_may_mark() -> None:
    class MarksInThreads(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async with trio.open_nursery() as nursery:
                async for message in claim.concurrently(5):
                    mark = partial(session.mark_message if message.offset % 2 else self.mark_offset, message)
                    nursery.start_soon(trio.to_thread.run_sync, mark)

        def mark_offset(self, message: Message) -> None:
            self.session.mark_offset(message.topic, message.partition, message.offset + 1)

        async def setup(self, session: Session) -> None:
            self.session = session

    feed = feed_of(*[b""] * 50)
    feed.end()
    await feed.run(MarksInThreads())
    assert feed.committed == 50


async def test_late_mark_of_a_thread_is_ignored() -> None:
    """The claim has stopped and its partition is no longer owned."""
    marked, release = threading.Event(), threading.Event()

    class MarksLate(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim.concurrently(5):
                threading.Thread(target=self.mark, args=(session, message), daemon=True).start()

        def mark(self, session: Session, message: Message) -> None:
            release.wait()
            with suppress(ValueError):
                session.mark_message(message)
            marked.set()

    await run_for(0.1, feed := feed_of(b""), MarksLate())
    release.set()
    await trio.to_thread.run_sync(marked.wait)
    assert feed.committed == 0


async def test_metadata_of_another_handler_is_replaced(autojump_clock: MockClock) -> None:
    class MarksWithMetadata(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                session.mark_message(message, "note")

    feed = feed_of(b"1")
    feed.end()
    await feed.run(MarksWithMetadata())
    feed.send(b"1")
    feed.end()
    await feed.run(second := Concurrent())
    assert second.started == [1]
    assert feed.commit is not None
    assert (feed.commit.offset, feed.commit.metadata) == (2, "")


async def test_claim_read_concurrently_refuses_other_reads(autojump_clock: MockClock) -> None:
    class ReadsTwice(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            with pytest.raises(ValueError, match="at least 1"):
                claim.concurrently(0)
            with pytest.raises(ValueError, match=r"limit = 2\.5: must be a whole number"):
                claim.concurrently(2.5)  # type: ignore[arg-type]
            claim.concurrently(1)
            for read in (lambda: claim.concurrently(1), claim.__aiter__, claim.batches):
                with pytest.raises(RuntimeError, match="read by concurrently"):
                    read()
            session.end("checked")

    feed = feed_of(b"1")
    await feed.run(ReadsTwice())


async def test_consumer_without_a_group_cannot_read_concurrently(autojump_clock: MockClock) -> None:
    async with (
        orders() as cluster,
        Watched(cluster) as consumer,
        consumer.consume_partition("orders", 0, "oldest") as claim,
    ):
        with pytest.raises(RuntimeError, match="group id"):
            claim.concurrently(5)
