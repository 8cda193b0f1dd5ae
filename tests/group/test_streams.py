"""Streams: several members in one process, and one task that reads several partitions from one feed.

Over the in-memory cluster under virtual time.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from sarameya import (
    Claim,
    ClaimError,
    ConfigError,
    CorruptRecordError,
    HandlerError,
    Message,
    Session,
    Stream,
    StreamHandler,
    TopicPartition,
)
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import ClaimCancelled, ClaimEnded, SessionEnding, SessionStarted, TaskStuck
from tests.group.kit import Recorder, Running, committed, deadline, eventually, failure, fill, orders, start_member

OnMessage = Callable[[Session, Stream, Message], Awaitable[None]]
COOPERATIVE: dict[str, Any] = {"rebalance_strategies": ("cooperative-sticky",)}


def partition(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


class Streaming(StreamHandler):
    """A handler that keeps and marks every message. `on_message` is called before the mark."""

    def __init__(self, streams: int = 1, on_message: OnMessage | None = None, *, by_batch: bool = False) -> None:
        self.streams = streams
        self.fetcher: list[Stream] = []
        self.taken: list[tuple[int, int, int]] = []
        """(stream, partition, offset) of each message."""
        self.calls: list[str] = []
        self.session: Session | None = None
        self._on_message = on_message
        self._by_batch = by_batch

    async def setup(self, session: Session) -> None:
        self.session = session
        self.fetcher = []
        self.calls.append("setup")

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(f"revoked {' '.join(str(tp.partition) for tp in partitions)}")

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        self.fetcher.append(stream)
        async for item in stream.batches() if self._by_batch else stream:
            for message in [item] if isinstance(item, Message) else item:
                self.taken.append((stream.index, message.partition, message.offset))
                if self._on_message is not None:
                    await self._on_message(session, stream, message)
                session.mark_message(message)
        self.calls.append(f"end {stream.index}")

    async def cleanup(self, session: Session) -> None:
        self.calls.append("cleanup")

    def offsets(self, number: int) -> list[int]:
        return [offset for _, taken, offset in self.taken if taken == number]

    def partitions(self) -> list[list[int]]:
        """Return the partitions of each stream."""
        return [[tp.partition for tp in feed.claims] for feed in sorted(self.fetcher, key=lambda feed: feed.index)]


def many(cluster: EmbeddedCluster, number: int, batches: int, size: int) -> None:
    for _ in range(batches):
        cluster.produce_many("orders", number, [(None, b"x")] * size)


# -- several members in one process -------------------------------------------------------------------------


async def test_two_members_with_two_streams_share_five_partitions(
    autojump_clock: MockClock,
) -> None:
    async with orders(5) as cluster, deadline() as nursery:
        handlers = {name: Recorder() for name in ("C1_0", "C1_1", "C2_0", "C2_1")}
        for name in ("C2_1", "C1_0", "C2_0", "C1_1"):  # in any order
            await start_member(nursery, cluster, handlers[name], client_id=name)
        await eventually(lambda: all(h.sessions and h.sessions[-1].claims for h in handlers.values()))
        await eventually(lambda: len({h.sessions[-1].generation for h in handlers.values()}) == 1)
        assert {name: h.sessions[-1].claims["orders"] for name, h in handlers.items()} == {
            "C1_0": (0, 1),
            "C1_1": (2,),
            "C2_0": (3,),
            "C2_1": (4,),
        }


async def test_two_members_with_two_streams_each_share_five_partitions(autojump_clock: MockClock) -> None:
    async with orders(5) as cluster, deadline() as nursery:
        one, two = Streaming(2), Streaming(2)
        await start_member(nursery, cluster, two, client_id="C2")
        await start_member(nursery, cluster, one, client_id="C1")
        await eventually(lambda: (one.partitions(), two.partitions()) == ([[0, 1], [2]], [[3], [4]]))


# -- one feed of several partitions ---------------------------------------------------------------------------


@pytest.mark.parametrize("by_batch", [False, True])
async def test_stream_reads_each_partition_in_order_and_commits(autojump_clock: MockClock, by_batch: bool) -> None:
    async with orders(3) as cluster, deadline() as nursery:
        for number in range(3):
            many(cluster, number, batches=3, size=4 + number)
        handler = Streaming(by_batch=by_batch)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: len(handler.taken) == 45)
        (feed,) = handler.fetcher
        assert {tp.partition: claim.position for tp, claim in feed.claims.items()} == {0: 12, 1: 15, 2: 18}
        fill(cluster, 5, 1)
        await eventually(lambda: len(handler.taken) == 50)
        await member.close()
        assert [handler.offsets(number) for number in range(3)] == [list(range(n)) for n in (12, 20, 18)]
        assert committed(cluster) == {"orders-0": 12, "orders-1": 20, "orders-2": 18}
        assert handler.calls == ["setup", "end 0", "revoked 0 1 2", "cleanup"]
        assert feed.has_ended
        assert sorted(e.partition for e in member.seen(ClaimEnded)) == [partition(number) for number in range(3)]
        assert member.error is None


async def test_stream_alternates_between_partitions_batch_by_batch(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        many(cluster, 0, batches=50, size=3)
        many(cluster, 1, batches=6, size=3)
        many(cluster, 3, batches=2, size=3)
        handler = Streaming()
        await start_member(nursery, cluster, handler)
        await eventually(lambda: len(handler.taken) == 58 * 3)
        order = [number for _, number, _ in handler.taken][::3]
        assert [number for _, number, _ in handler.taken] == [n for one in order for n in [one] * 3], "whole batches"
        last = {number: len(order) - 1 - order[::-1].index(number) for number in (1, 3)}
        assert last[3] <= 3 * 2 + 2
        assert last[1] <= 3 * 6 + 2


async def test_busy_partition_starves_none(autojump_clock: MockClock) -> None:
    """Partition 0 always has more messages. Those of partition 1 come right after the current batch."""
    delays: list[int] = []

    async def produce_more(session: Session, stream: Stream, message: Message) -> None:
        await trio.sleep(0.001)
        if message.partition == 0:
            fill(cluster, 1, 0)
        else:
            delays.append(len(handler.offsets(0)) - produced_at[message.offset])

    produced_at: list[int] = []
    async with orders(2) as cluster, deadline() as nursery:
        many(cluster, 0, batches=20, size=1)
        handler = Streaming(on_message=produce_more)
        await start_member(nursery, cluster, handler, fetch_max_wait=0.01)
        for _ in range(10):
            await trio.sleep(0.3)
            produced_at.append(len(handler.offsets(0)))
            fill(cluster, 1, 1)
        await eventually(lambda: len(delays) == 10)
        assert len(handler.offsets(0)) > 1000
        assert max(delays) < 60, "no more than is read until a fetch returns"


async def test_stream_and_claim_iterators_share_their_positions(autojump_clock: MockClock) -> None:
    taken: list[tuple[int, int]] = []

    class Mixed(StreamHandler):
        async def consume_stream(self, session: Session, stream: Stream) -> None:
            async for message in stream:
                taken.append((message.partition, message.offset))
                if len(taken) == 3:
                    break
            rest = await anext(stream.batches())
            taken.extend((rest.partition, message.offset) for message in rest)
            assert taken == [(0, offset) for offset in range(5)]
            async for message in stream.claims[partition(1)]:
                taken.append((message.partition, message.offset))
                if message.offset == 6:
                    break
            async for message in stream:
                taken.append((message.partition, message.offset))  # noqa: PERF401 - read until the session ends

    async with orders(2) as cluster, deadline() as nursery:
        many(cluster, 0, batches=2, size=5)
        member = await start_member(nursery, cluster, Mixed())
        await eventually(lambda: len(taken) == 5)
        many(cluster, 1, batches=2, size=5)
        await eventually(lambda: len(taken) == 20)
        assert [offset for number, offset in taken if number == 0] == list(range(10))
        assert [offset for number, offset in taken if number == 1] == list(range(10))
        await member.close()
        assert member.error is None


async def test_paused_partition_of_a_stream_leaves_the_others_reading(autojump_clock: MockClock) -> None:
    async def pause_at_one(session: Session, stream: Stream, message: Message) -> None:
        if (message.partition, message.offset) == (0, 1):
            session.pause([partition(0)])

    async with orders(2) as cluster, deadline() as nursery:
        many(cluster, 0, batches=3, size=5)
        many(cluster, 1, batches=3, size=5)
        handler = Streaming(on_message=pause_at_one)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: len(handler.offsets(1)) == 15)
        await trio.sleep(60)
        assert handler.offsets(0) == [0, 1]
        assert handler.fetcher[0].claims[partition(0)].position == 2
        member.group.resume([partition(0)])
        await eventually(lambda: handler.offsets(0) == list(range(15)))


async def test_cancelled_read_of_a_stream_loses_nothing(autojump_clock: MockClock) -> None:
    taken: list[tuple[int, int]] = []

    class Impatient(StreamHandler):
        async def consume_stream(self, session: Session, stream: Stream) -> None:
            batches = stream.batches()
            while not stream.has_ended:
                with trio.move_on_after(0.05):
                    taken.extend((m.partition, m.offset) for m in await anext(batches))

    async with orders(2) as cluster, deadline() as nursery:
        await start_member(nursery, cluster, Impatient())
        for number in range(50):
            fill(cluster, 1, number % 2)
            await trio.sleep(0.13)
        await eventually(lambda: len(taken) == 50)
        assert [[o for n, o in taken if n == number] for number in (0, 1)] == [list(range(25))] * 2


# -- failures and endings ---------------------------------------------------------------------------------------


async def test_failing_stream_names_its_partition(
    autojump_clock: MockClock,
) -> None:
    boom = ValueError("cannot handle this")

    async def fail(session: Session, stream: Stream, message: Message) -> None:
        if (message.partition, message.offset) == (1, 2):
            await trio.sleep(1)  # the other stream runs
            raise boom

    async with orders(3) as cluster, deadline() as nursery:
        for number in range(3):
            many(cluster, number, batches=1, size=4)
        handler = Streaming(2, fail)
        member = await start_member(nursery, cluster, handler)
        await member.ended.wait()
        error = failure(member)
        assert isinstance(error, ClaimError)
        assert (error.partition, error.offset, error.generation) == (partition(1), 3, 1)
        assert error.__cause__ is boom
        assert boom.__notes__ == ["in stream 0 (orders-0 at 4, orders-1 at 3)"]
        assert committed(cluster) == {"orders-0": 4, "orders-1": 2, "orders-2": 4}
        assert handler.calls == ["setup", "end 1", "revoked 0 1 2", "cleanup"]


async def test_failing_stream_without_a_current_message_is_named(autojump_clock: MockClock) -> None:
    class Hasty(StreamHandler):
        async def consume_stream(self, session: Session, stream: Stream) -> None:
            with trio.move_on_after(5):
                async for message in stream:
                    session.mark_message(message)
            raise LookupError("no such table")

    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 3, 1)
        member = await start_member(nursery, cluster, Hasty())
        await member.ended.wait()
        error = failure(member)
        assert isinstance(error, HandlerError)
        assert str(error) == "stream 0 (orders-0 at 0, orders-1 at 3), generation 1: LookupError: no such table"
        assert isinstance(error.__cause__, LookupError)


async def test_broken_batch_fails_the_stream_with_its_partition(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 5, 0)
        fill(cluster, 5, 1)
        cluster.append_raw("orders", 1, b"\x00" * 8 + b"\x00\x00\x00\x40" + b"\x00\x00\x00\x00\x02" + b"\x01" * 59, 5)
        handler = Streaming()
        member = await start_member(nursery, cluster, handler)
        await member.ended.wait()
        error = failure(member)
        assert isinstance(error, ClaimError)
        assert isinstance(error.__cause__, CorruptRecordError)
        assert (error.partition, error.offset) == (partition(1), 5)
        assert handler.offsets(1) == [0, 1, 2, 3, 4]


async def test_caught_read_error_is_raised_again(
    autojump_clock: MockClock,
) -> None:
    taken: list[tuple[int, int]] = []
    errors: list[str] = []

    class Stubborn(StreamHandler):
        async def consume_stream(self, session: Session, stream: Stream) -> None:
            while len(errors) < 4:
                try:
                    async for message in stream:
                        taken.append((message.partition, message.offset))  # noqa: PERF401 - read until the error
                except CorruptRecordError as error:
                    errors.append(str(error))
                    await trio.sleep(1)
                    fill(cluster, 1, 0)
                    await trio.sleep(1)

    async with orders(2) as cluster, deadline() as nursery:
        cluster.append_raw("orders", 1, b"\x00" * 8 + b"\x00\x00\x00\x40" + b"\x00\x00\x00\x00\x02" + b"\x01" * 59, 0)
        await start_member(nursery, cluster, Stubborn())
        await eventually(lambda: len(errors) == 4)
        assert len(set(errors)) == 1
        assert taken == [(0, 0), (0, 1)], "partitions alternate"


async def test_stream_that_returns_ends_the_session_with_a_reason(autojump_clock: MockClock) -> None:
    class Returns(Streaming):
        async def consume_stream(self, session: Session, stream: Stream) -> None:
            await anext(aiter(stream))

    async with orders(1) as cluster, deadline() as nursery:
        fill(cluster, 1)
        handler = Returns(1)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: handler.calls.count("setup") >= 2)
        assert member.seen(SessionEnding)[0].reason == "stream 0 (orders-0 at 1) returned"


async def test_stream_that_does_not_return_is_cancelled_after_its_grace(autojump_clock: MockClock) -> None:
    class Deaf(StreamHandler):
        streams = 2

        async def consume_stream(self, session: Session, stream: Stream) -> None:
            await trio.sleep(math.inf)

    async with orders(1) as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Deaf(), claim_grace=5.0, close_timeout=60.0)
        await eventually(lambda: bool(member.seen(SessionStarted)))
        await trio.sleep(1)
        began = trio.current_time()
        await member.close()
        assert trio.current_time() - began == pytest.approx(5.0, abs=0.5)
        assert [(e.partition, e.grace) for e in member.seen(ClaimCancelled)] == [(partition(0), pytest.approx(5.0))]
        assert member.error is None


async def test_stream_that_ignores_cancellation_is_reported(autojump_clock: MockClock) -> None:
    release = trio.Event()

    class Stubborn(StreamHandler):
        streams = 2

        async def consume_stream(self, session: Session, stream: Stream) -> None:
            if stream.index == 1:
                with trio.CancelScope(shield=True):
                    await release.wait()

    async with orders(1) as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Stubborn(), claim_grace=2.0, close_timeout=10.0)
        await eventually(lambda: bool(member.seen(SessionStarted)))
        await trio.sleep(1)
        member.group.close_nowait()
        await eventually(lambda: bool(member.seen(TaskStuck)))
        assert member.seen(TaskStuck)[0].what == "stream 1 (no partitions)"
        release.set()
        await member.ended.wait()


@pytest.mark.parametrize("count", [0, -1, True, 2.0, "2"])
async def test_invalid_number_of_streams_is_refused_at_once(autojump_clock: MockClock, count: Any) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Streaming(count))
        await member.ended.wait()
        assert isinstance(member.error, ConfigError)
        assert "streams" in str(member.error)
        assert not cluster.describe_group("g").members


# -- claims added and revoked ------------------------------------------------------------------------------------


async def test_stream_without_partitions_waits_for_added_ones(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = Streaming(3)
        member = await start_member(nursery, cluster, handler, metadata_max_age=5.0, **COOPERATIVE)
        await eventually(lambda: len(handler.fetcher) == 3)
        assert handler.partitions() == [[0], [1], []]
        cluster.add_partitions("orders", 5)
        await eventually(lambda: handler.partitions() == [[0, 3], [1, 4], [2]])
        assert len(member.seen(SessionStarted)) == 1
        for number in range(5):
            fill(cluster, 2, number)
        await eventually(lambda: len(handler.taken) == 10)
        assert {(stream, number) for stream, number, _ in handler.taken} == {(0, 0), (0, 3), (1, 1), (1, 4), (2, 2)}


async def start_second_member(
    nursery: trio.Nursery, cluster: EmbeddedCluster, member: Running
) -> tuple[float, Streaming]:
    """Start a second member. Return the seconds until its first claim, and its handler."""
    began, second = trio.current_time(), Streaming()
    await start_member(nursery, cluster, second, heartbeat_interval=1.0, **COOPERATIVE)
    await eventually(lambda: bool(second.fetcher) and bool(second.fetcher[0].claims))
    assert len(member.seen(SessionStarted)) == 1
    return trio.current_time() - began, second


async def test_revoked_partition_waits_for_the_message_in_the_handler(
    autojump_clock: MockClock,
) -> None:
    async def slow(session: Session, stream: Stream, message: Message) -> None:
        if message.partition == 1:
            await trio.sleep(12)

    async with orders(2) as cluster, deadline() as nursery:
        handler = Streaming(on_message=slow)
        member = await start_member(nursery, cluster, handler, heartbeat_interval=1.0, **COOPERATIVE)
        await eventually(lambda: handler.partitions() == [[0, 1]])
        many(cluster, 1, batches=2, size=3)
        await eventually(lambda: len(handler.taken) == 1)
        seconds, second = await start_second_member(nursery, cluster, member)
        assert 11 < seconds < 15
        assert second.partitions() == [[1]]
        assert handler.partitions() == [[0]]
        assert handler.calls == ["setup", "revoked 1"]
        await eventually(lambda: len(second.taken) == 5)
        assert (handler.offsets(1), second.offsets(1)) == ([0], [1, 2, 3, 4, 5]), "its mark was committed"
        assert member.seen(ClaimEnded)[0].partition == partition(1)
        await trio.sleep(60)
        fill(cluster, 3, 0)
        await eventually(lambda: handler.offsets(0) == [0, 1, 2])
        assert member.seen(ClaimCancelled) == [], "no deadline remains"


async def test_revoked_partition_ends_while_another_is_being_read(autojump_clock: MockClock) -> None:
    """The handler only has to request its next message. The current batch is read to its end."""

    async def slow(session: Session, stream: Stream, message: Message) -> None:
        await trio.sleep(1)

    async with orders(3) as cluster, deadline(1000) as nursery:
        handler = Streaming(on_message=slow)
        member = await start_member(nursery, cluster, handler, heartbeat_interval=1.0, **COOPERATIVE)
        await eventually(lambda: handler.partitions() == [[0, 1, 2]])
        many(cluster, 0, batches=3, size=100)
        many(cluster, 1, batches=3, size=100)
        await eventually(lambda: len(handler.taken) == 105)  # in the second batch
        seconds, second = await start_second_member(nursery, cluster, member)
        assert seconds < 5
        assert second.partitions() == [[2]]
        assert len(handler.taken) < 115
        await eventually(lambda: len(handler.taken) == 600)
        assert (handler.offsets(0), handler.offsets(1)) == (list(range(300)), list(range(300)))
        partitions = [number for _, number, _ in handler.taken]
        assert all(len(set(partitions[first : first + 100])) == 1 for first in range(0, 600, 100))


async def test_waiting_stream_releases_a_revoked_partition_at_once(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = Streaming()
        member = await start_member(nursery, cluster, handler, heartbeat_interval=1.0, **COOPERATIVE)
        await eventually(lambda: handler.partitions() == [[0, 1]])
        seconds, _ = await start_second_member(nursery, cluster, member)
        assert seconds < 3


async def test_stream_that_exceeds_its_grace_is_cancelled(
    autojump_clock: MockClock,
) -> None:
    async def hang(session: Session, stream: Stream, message: Message) -> None:
        if message.partition == 1 and len(handler.offsets(1)) == 1:
            await trio.sleep(math.inf)

    async with orders(3) as cluster, deadline() as nursery:
        handler = Streaming(2, hang)
        member = await start_member(nursery, cluster, handler, heartbeat_interval=1.0, claim_grace=7.0, **COOPERATIVE)
        await eventually(lambda: handler.partitions() == [[0, 1], [2]])
        fill(cluster, 2, 0)
        await eventually(lambda: len(handler.offsets(0)) == 2)
        fill(cluster, 2, 1)
        await eventually(lambda: len(handler.offsets(1)) == 1)
        others = [Streaming(), Streaming()]
        for other in others:
            await start_member(nursery, cluster, other, **COOPERATIVE)
        await eventually(lambda: handler.calls.count("setup") == 2)
        ending = member.seen(SessionEnding)[0]
        reason = "stream 0 (orders-0 at 2, orders-1 at 1) was cancelled: it did not request the next message"
        assert ending.reason.startswith(reason)
        assert not ending.lost
        assert {e.partition for e in member.seen(ClaimCancelled)} == {partition(0), partition(1)}
        assert all(e.grace == pytest.approx(7.0) for e in member.seen(ClaimCancelled))
        assert "cleanup" in handler.calls
        await eventually(lambda: sum(len(h.offsets(1)) for h in [handler, *others]) == 3)
        taken = [offset for h in [handler, *others] for offset in h.offsets(1)]
        assert sorted(taken) == [0, 0, 1], "its unfinished message comes again"
        assert not member.ended.is_set()


async def test_stream_that_loses_all_partitions_waits_for_others(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = Streaming(2)
        member = await start_member(nursery, cluster, handler, heartbeat_interval=1.0, **COOPERATIVE)
        await eventually(lambda: handler.partitions() == [[0], [1]])
        other = Streaming()
        second = await start_member(nursery, cluster, other, **COOPERATIVE)
        await eventually(lambda: sorted(handler.partitions(), key=len)[0] == [])
        await trio.sleep(60)
        await second.close()
        await eventually(lambda: all(len(partitions) == 1 for partitions in handler.partitions()))
        assert len(member.seen(SessionStarted)) == 1
        assert handler.calls.count("setup") == 1
        fill(cluster, 2, 0)
        fill(cluster, 2, 1)
        await eventually(lambda: (handler.offsets(0), handler.offsets(1)) == ([0, 1], [0, 1]))


# -- random steps -----------------------------------------------------------------------------------------------

_STEP = st.one_of(
    st.tuples(st.just("produce"), st.tuples(st.integers(0, 3), st.integers(1, 9))),
    st.tuples(st.sampled_from(["pause", "resume"]), st.frozensets(st.builds(partition, st.integers(0, 3)))),
    st.tuples(st.sampled_from(["join", "leave", "disconnect", "end"]), st.none()),
    st.tuples(st.just("sleep"), st.sampled_from([0.01, 0.5, 4.0])),
)


@settings(max_examples=50)
@given(
    st.lists(_STEP, max_size=25),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(["range", "cooperative-sticky"]),
    st.sampled_from([0.0, 0.02]),
)
def test_streams_lose_and_repeat_nothing_in_random_steps(
    steps: list[tuple[str, Any]], streams: int, by_batch: bool, strategy: str, seconds: float
) -> None:
    async def dawdle(session: Session, stream: Stream, message: Message) -> None:
        await trio.sleep(seconds)

    async def main() -> None:
        taken: list[tuple[int, int, int]] = []
        members: list[Running] = []

        async def join() -> Streaming:
            handler = Streaming(streams, dawdle if seconds else None, by_batch=by_batch)
            handler.taken = taken
            options = {"rebalance_strategies": (strategy,), "heartbeat_interval": 0.5, "fetch_max_partition_bytes": 200}
            members.append(await start_member(nursery, cluster, handler, **options))
            return handler

        async with orders(4, brokers=2) as cluster, deadline() as nursery:
            handler = await join()
            counts = [0] * 4
            for what, argument in steps:
                match what:
                    case "produce":
                        number, count = argument
                        cluster.produce_many("orders", number, [(None, b"x" * 20)] * count, batch_bytes=60)
                        counts[number] += count
                    case "pause" | "resume":
                        getattr(members[0].group, what)(argument)
                    case "disconnect":
                        cluster.disconnect()
                    case "end" if handler.session is not None:
                        handler.session.end("the test wants it")
                    case "join" if len(members) < 3:
                        await join()
                    case "leave" if len(members) > 1:
                        await members.pop().close()
                    case "sleep":
                        await trio.sleep(argument)
            members[0].group.resume_all()
            await eventually(lambda: len(taken) >= sum(counts) or any(m.ended.is_set() for m in members))
            for member in members:
                await member.close()
                assert member.error is None
            assert [[o for _, n, o in taken if n == number] for number in range(4)] == [list(range(c)) for c in counts]

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_stream_handler_does_not_implement_consume_claim() -> None:
    claim = Claim.__new__(Claim)
    with pytest.raises(NotImplementedError):
        trio.run(Streaming().consume_claim, None, claim)
