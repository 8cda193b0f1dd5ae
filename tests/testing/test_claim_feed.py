"""`ClaimFeed`: a handler experiences the same as in a group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    ClaimError,
    CommitError,
    Config,
    ConsumerGroup,
    ConsumerGroupHandler,
    ConsumerInterceptor,
    Event,
    GroupError,
    Message,
    MessageBatch,
    Session,
    Stream,
    StreamHandler,
    TopicPartition,
)
from sarameya.errors import CorruptRecordError, OffsetOutOfRangeError
from sarameya.model import LogRange
from sarameya.observe import (
    ClaimCancelled,
    CommitFailed,
    Committed,
    OffsetReset,
    PartitionBackpressured,
    Retrying,
    SessionEnding,
)
from sarameya.testing import VIRTUAL_EPOCH, ClaimFeed, CoordinatorConfig, ErrorCode, memory_cluster, run_inline

ORDERS = TopicPartition("orders", 0)


class Recorder(ConsumerGroupHandler):
    """A handler that records its calls and messages, and marks each message after `on_message`."""

    def __init__(self, on_message: Callable[[Session, Message], Awaitable[object]] | None = None) -> None:
        self.calls: list[str] = []
        self.messages: list[Message] = []
        self._on_message = on_message

    async def setup(self, session: Session) -> None:
        self.calls.append("setup")

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("assigned")

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("revoked")

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("lost")

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        self.calls.append("claim")
        async for message in claim:
            self.messages.append(message)
            if self._on_message is not None:
                await self._on_message(session, message)
            session.mark_message(message)
        self.calls.append("ended")

    async def cleanup(self, session: Session) -> None:
        self.calls.append("cleanup")

    @property
    def offsets(self) -> list[int]:
        return [message.offset for message in self.messages]


def filled(count: int, **options: Any) -> ClaimFeed:
    feed = ClaimFeed("orders", **options)
    for number in range(count):
        feed.send(b"%d" % number)
    return feed


def seen(feed: ClaimFeed, kind: type[Any]) -> list[Any]:
    return [event for event in feed.events if isinstance(event, kind)]


async def test_sent_messages_are_handled_and_marks_committed(
    autojump_clock: MockClock,
) -> None:
    feed, handler = ClaimFeed("orders", 3, at=100), Recorder()
    assert (feed.marked, feed.committed) == (100, 100)
    assert feed.send(b"3", key=b"a", headers=(("trace", b"1"),), timestamp=5) == 100
    assert feed.send(None) == 101
    feed.end()
    await feed.run(handler)
    first, second = handler.messages
    assert (first.topic, first.partition, first.offset, first.timestamp) == ("orders", 3, 100, 5)
    assert (first.value, first.key, first.headers) == (b"3", b"a", (("trace", b"1"),))
    assert (second.value, second.key, second.headers) == (None, None, ())
    assert handler.calls == ["setup", "assigned", "claim", "ended", "revoked", "cleanup"]
    assert (feed.marked, feed.committed) == (102, 102)
    assert len(seen(feed, Committed)) == 1


async def test_messages_sent_during_the_run_are_delivered(autojump_clock: MockClock) -> None:
    feed, handler = ClaimFeed("orders"), Recorder()
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        for number in range(3):
            feed.send(b"%d" % number)
            await trio.sleep(10)
            assert feed.committed == number + 1, "not committed after the autocommit interval"
        feed.end()
    assert handler.offsets == [0, 1, 2]


async def test_end_waits_until_the_handler_has_read_all(autojump_clock: MockClock) -> None:
    class HoldingHandler(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                claim.hold(10)
                await trio.sleep(5)
                assert not claim.has_ended
                claim.release(10)
                session.mark_message(message)

    feed = filled(3)
    feed.end()
    await feed.run(HoldingHandler())
    assert feed.committed == 3


async def test_end_now_leaves_unread_messages_to_the_next_session(autojump_clock: MockClock) -> None:
    async def end(session: Session, message: Message) -> None:
        if message.offset == 1:
            feed.end(now=True)
            await trio.sleep(1)

    feed, first, second = filled(4), Recorder(end), Recorder()
    await feed.run(first)
    assert (first.offsets, feed.committed) == ([0, 1], 2)
    feed.end()
    await feed.run(second)
    assert (second.offsets, feed.committed) == ([2, 3], 4)


async def test_lost_membership_redelivers_marked_messages(autojump_clock: MockClock) -> None:
    feed, first, second = filled(2), Recorder(), Recorder()
    feed.lose()
    feed.send(b"for the next one")
    feed.end()
    await feed.run(first)
    assert first.calls[-2:] == ["lost", "cleanup"]
    assert (first.offsets, feed.marked, feed.committed) == ([0, 1], 2, 0)
    await feed.run(second)
    assert (second.offsets, feed.committed) == ([0, 1, 2], 3)


async def test_commit_after_a_loss_raises_a_commit_error(autojump_clock: MockClock) -> None:
    errors: list[CommitError] = []

    async def commit(session: Session, message: Message) -> None:
        session.mark_message(message)
        feed.lose(now=True)
        await trio.sleep(1)
        assert session.is_lost
        try:
            await session.commit()
        except CommitError as error:
            errors.append(error)

    feed = filled(2)
    await feed.run(Recorder(commit))
    assert len(errors) == 1


async def test_injected_error_is_raised_after_earlier_messages(autojump_clock: MockClock) -> None:
    feed, handler = filled(2), Recorder()
    broken = CorruptRecordError("orders", 0, 2, "its checksum does not match")
    feed.fail(broken)
    feed.send(b"after it")
    feed.end()
    with pytest.raises(ExceptionGroup) as caught:
        await feed.run(handler)
    (error,) = caught.value.exceptions
    assert isinstance(error, ClaimError)
    assert (error.partition, error.offset, error.cause) == (ORDERS, 2, broken)
    assert (handler.offsets, feed.committed) == ([0, 1], 2)
    assert handler.calls[-2:] == ["revoked", "cleanup"]
    await feed.run(handler)
    assert handler.offsets == [0, 1, 2]


async def test_fail_refuses_errors_that_reading_cannot_raise() -> None:
    with pytest.raises(TypeError, match="not a SarameyaError"):
        ClaimFeed().fail(ValueError("mine"))  # type: ignore[arg-type]


async def test_handler_error_has_its_offset_and_keeps_marks(
    autojump_clock: MockClock,
) -> None:
    async def refuse(session: Session, message: Message) -> None:
        if message.offset == 1:
            raise ValueError("no such order")

    feed = filled(3)
    with pytest.raises(ExceptionGroup) as caught:
        await feed.run(Recorder(refuse))
    assert caught.group_contains(ClaimError, match=r"orders-0.*no such order")
    assert (feed.marked, feed.committed) == (1, 1)


async def test_gaps_are_delivered_as_in_a_compacted_log(autojump_clock: MockClock) -> None:
    class Ranges(ConsumerGroupHandler):
        def __init__(self) -> None:
            self.read: list[tuple[int, list[int], int]] = []

        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for batch in claim.batches():
                self.read.append((batch.from_offset, [m.offset for m in batch.messages], batch.next_offset))
                session.mark_batch(batch)

    feed, ranges = filled(1), Ranges()
    assert feed.send(b"behind a gap", offset=7) == 7
    assert feed.send(b"next") == 8
    with pytest.raises(ValueError, match="offset 8 is taken"):
        feed.send(b"again", offset=8)
    feed.end()
    await feed.run(ranges)
    assert ranges.read == [(0, [0, 7, 8], 9)]
    assert feed.committed == 9


async def test_slow_handler_is_backpressured(autojump_clock: MockClock) -> None:
    async def process_slowly(session: Session, message: Message) -> None:
        await trio.sleep(10)

    feed = ClaimFeed("orders", config=Config(max_processing_time=1.0, fetch_max_bytes=1024))
    for _ in range(20):
        feed.send(b"v" * 500)
    feed.end()
    handler = Recorder(process_slowly)
    await feed.run(handler)
    assert len(handler.messages) == 20
    assert seen(feed, PartitionBackpressured)


async def test_hanging_handler_is_cancelled_after_its_grace(autojump_clock: MockClock) -> None:
    async def hang(session: Session, message: Message) -> None:
        feed.end(now=True)
        await trio.sleep_forever()

    feed = filled(1, config=Config(claim_grace=3.0))
    await feed.run(Recorder(hang))
    (cancelled,) = seen(feed, ClaimCancelled)
    assert (cancelled.grace, feed.committed) == (3.0, 0)


async def test_interceptors_see_messages_and_commits(autojump_clock: MockClock) -> None:
    class DoublingInterceptor(ConsumerInterceptor):
        commits: list[int] = []

        def on_consume(self, batch: MessageBatch) -> list[Message]:
            return [message.replace(value=(message.value or b"") * 2) for message in batch.messages]

        def on_commit(self, offsets: Any) -> None:
            self.commits.append(offsets[ORDERS].offset)

    doubles = DoublingInterceptor()
    feed, handler = filled(2, interceptors=[doubles]), Recorder()
    feed.end()
    await feed.run(handler)
    assert [message.value for message in handler.messages] == [b"00", b"11"]
    assert doubles.commits == [2]


async def test_commit_error_decides_between_retry_and_end(autojump_clock: MockClock) -> None:
    feed, handler = filled(2), Recorder()
    feed.fail_commits(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2)
    feed.end()
    await feed.run(handler)
    assert (len(seen(feed, Retrying)), feed.committed) == (2, 2)

    async def commit(session: Session, message: Message) -> None:
        session.mark_message(message)
        await session.commit()

    feed.send(b"one more")
    feed.fail_commits(ErrorCode.UNKNOWN_MEMBER_ID)
    handler = Recorder(commit)
    await feed.run(handler)
    assert handler.calls[-2:] == ["lost", "cleanup"]
    assert feed.committed == 2

    feed.fail_commits(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises((GroupError, ExceptionGroup)) as caught:
        await feed.run(Recorder(commit))
    assert "GROUP_AUTHORIZATION_FAILED" in repr(caught.value)


@pytest.mark.parametrize(("initial", "offsets"), [("oldest", [0, 1]), ("newest", [])])
async def test_policy_decides_without_a_committed_offset(
    autojump_clock: MockClock, initial: str, offsets: list[int]
) -> None:
    feed, handler = filled(2, committed=None, config=Config.from_mapping({"offset_initial": initial})), Recorder()
    assert (feed.marked, feed.committed, feed.commit) == (None, None, None)
    feed.end()
    await feed.run(handler)
    assert (handler.offsets, feed.committed) == (offsets, 2)


async def test_feed_calls_and_events_equal_those_of_a_group(autojump_clock: MockClock) -> None:
    events: list[str] = []

    def record(event: Event) -> None:
        events.append(type(event).__name__)

    config, from_feed, from_group = Config(offset_initial="oldest", autocommit=False), Recorder(), Recorder()
    feed = filled(3, config=config)
    feed.end()
    await feed.run(from_feed)
    async with memory_cluster({"orders": 1}) as cluster:
        for number in range(3):
            cluster.produce("orders", 0, b"%d" % number)
        group = ConsumerGroup(
            cluster.bootstrap_servers,
            "group",
            config,
            observers=[record],
            transport=cluster.transport,
            run_sync=run_inline,
        )
        async with group, trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, ["orders"], from_group)
            await trio.sleep(60)
            await group.close()
    assert from_feed.calls == from_group.calls
    assert [(m.offset, m.value, m.leader_epoch) for m in from_feed.messages] == [
        (m.offset, m.value, m.leader_epoch) for m in from_group.messages
    ]
    only_in_groups = {"MembershipChanged", "CoordinatorFound", "GroupLeft", "LeaveFailed"}
    assert [type(event).__name__ for event in feed.events if type(event) is not Committed] == [
        name for name in events if name not in {*only_in_groups, "Committed"}
    ]


async def test_handler_sets_its_start_offset_and_queries_the_log(autojump_clock: MockClock) -> None:
    class StartingHandler(Recorder):
        async def setup(self, session: Session) -> None:
            assert await session.log_ranges([ORDERS]) == {ORDERS: LogRange(0, 5)}
            assert await session.epoch_ends({ORDERS: 0}) == {ORDERS: 5}
            assert len(session.topic_id("orders")) == 32

        async def start_offset(self, partition: TopicPartition, committed: Any) -> int:
            assert committed.offset == 2
            return 3

    feed, handler = filled(5, committed=2), StartingHandler()
    feed.end()
    await feed.run(handler)
    assert handler.offsets == [3, 4]


async def test_position_before_the_log_start_follows_the_policy(autojump_clock: MockClock) -> None:
    feed, handler = filled(5, config=Config(offset_out_of_range="oldest")), Recorder()
    feed.delete_before(3)
    feed.end()
    await feed.run(handler)
    (reset,) = seen(feed, OffsetReset)
    assert (reset.before, reset.after, handler.offsets, feed.committed) == (0, 3, [3, 4], 5)
    feed = filled(5)
    with pytest.raises(ValueError, match="the log ends at 5"):
        feed.delete_before(6)
    feed.delete_before(3)
    with pytest.raises(ExceptionGroup) as caught:
        await feed.run(Recorder())
    (error,) = caught.value.exceptions
    assert isinstance(error, ClaimError)
    assert isinstance(error.cause, OffsetOutOfRangeError)


async def test_paused_claim_continues_after_resume(autojump_clock: MockClock) -> None:
    async def pause(session: Session, message: Message) -> None:
        if message.offset == 0:
            session.pause([ORDERS])
            nursery.start_soon(resume, session)

    async def resume(session: Session) -> None:
        await trio.sleep(100)
        assert handler.offsets == [0]
        session.resume([ORDERS])

    feed, handler = filled(3), Recorder(pause)
    feed.end()
    async with trio.open_nursery() as nursery:
        await feed.run(handler)
    assert handler.offsets == [0, 1, 2]


async def test_stream_handler_is_fed(autojump_clock: MockClock) -> None:
    class AddingHandler(StreamHandler):
        total = 0

        async def consume_stream(self, session: Session, stream: Stream) -> None:
            async for message in stream:
                self.total += int(message.value or b"0")
                session.mark_message(message)

    feed, adds = filled(4), AddingHandler()
    feed.end()
    await feed.run(adds)
    assert (adds.total, feed.committed) == (6, 4)


async def test_returning_handler_ends_the_session_with_a_reason(autojump_clock: MockClock) -> None:
    class ReturningHandler(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            return

    feed = filled(1)
    await feed.run(ReturningHandler())
    assert [event.reason for event in seen(feed, SessionEnding)] == ["claim of orders-0 returned"]


async def test_end_now_outside_of_a_run_raises(autojump_clock: MockClock) -> None:
    feed = ClaimFeed("orders")
    for method in (feed.end, feed.lose):
        with pytest.raises(RuntimeError, match=r"now=True.*call run\(\) first"):
            method(now=True)
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, Recorder())
        with pytest.raises(RuntimeError, match="already running"):
            await feed.run(Recorder())
        feed.end(now=True)


async def test_cancelled_run_cleans_up_and_commits(autojump_clock: MockClock) -> None:
    feed, handler = filled(2), Recorder()
    with trio.move_on_after(1) as scope:
        await feed.run(handler)
    assert scope.cancelled_caught
    assert (handler.calls[-2:], feed.committed) == (["revoked", "cleanup"], 2)
    assert not seen(feed, CommitFailed)


def test_feed_can_be_filled_before_trio_runs() -> None:
    feed, handler = filled(2), Recorder()
    feed.end()
    trio.run(feed.run, handler)
    assert handler.offsets == [0, 1]


async def test_metadata_above_the_limit_of_a_broker_is_refused(autojump_clock: MockClock) -> None:
    limit = CoordinatorConfig().offset_metadata_max_size

    async def commit(session: Session, message: Message) -> None:
        for length in (limit, limit + 1):
            session.mark_offset(message.topic, message.partition, message.offset + 1, "x" * length)
            await session.commit()

    feed = filled(1)
    feed.end()
    with pytest.raises(ExceptionGroup) as caught:
        await feed.run(Recorder(commit))
    assert "OFFSET_METADATA_TOO_LARGE" in repr(caught.value)
    assert feed.commit is not None
    assert len(feed.commit.metadata) == limit


async def test_same_seed_makes_equal_delays(autojump_clock: MockClock) -> None:
    async def seconds(seed: int) -> float:
        feed, began = filled(1, seed=seed), trio.current_time()
        feed.fail_commits(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 5)
        feed.end()
        await feed.run(Recorder())
        return trio.current_time() - began

    first, repeated, other = [await seconds(seed) for seed in (0, 0, 1)]
    assert first == pytest.approx(repeated)
    assert first != pytest.approx(other)


def test_timestamps_in_real_time_follow_the_age_of_the_feed() -> None:
    feed, handler = filled(1), Recorder()

    async def run() -> None:
        feed.send(b"in trio")
        feed.end()
        await feed.run(handler)

    trio.run(run)
    before, inside = [message.timestamp for message in handler.messages]
    assert before == VIRTUAL_EPOCH * 1000
    assert 0 <= inside - before < 60_000


async def test_timestamps_follow_virtual_time(autojump_clock: MockClock) -> None:
    feed, handler = ClaimFeed("orders"), Recorder()
    await trio.sleep(3600)
    feed.send(b"an hour later")
    feed.end()
    await feed.run(handler)
    assert handler.messages[0].timestamp == (VIRTUAL_EPOCH + 3600) * 1000
