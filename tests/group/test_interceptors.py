"""Interceptors that observe or change messages before the handler receives them. Virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    ClaimError,
    CommittedOffset,
    ConfigError,
    Consumer,
    ConsumerGroup,
    ConsumerGroupHandler,
    ConsumerInterceptor,
    InterceptorError,
    Message,
    MessageBatch,
    Session,
    Stream,
    StreamHandler,
    TopicPartition,
)
from sarameya.group.delivery.interceptors import OnError
from sarameya.observe import Committed, InterceptorFailed, InterceptorRecovered
from tests.group.kit import (
    Recorder,
    claim_failure,
    committed,
    deadline,
    eventually,
    failure,
    fill,
    orders,
    start_member,
)
from tests.group.standalone_kit import Watched, take

PARTITION = TopicPartition("orders", 0)


class Wrap(ConsumerInterceptor):
    """An interceptor that puts every value in brackets."""

    def __init__(self, brackets: str = "()") -> None:
        self.opening, self.closing = (bracket.encode() for bracket in brackets)
        self.seen: list[list[int]] = []

    def on_consume(self, batch: MessageBatch) -> Sequence[Message]:
        self.seen.append([message.offset for message in batch])
        return [m.replace(value=self.opening + (m.value or b"") + self.closing) for m in batch]


@attrs.define
class Broken(ConsumerInterceptor):
    """An interceptor that raises while `is_broken`, on batches for which `concerns` is true. It is not hashable."""

    on_error: OnError = "raise"
    is_broken: bool = True
    concerns: Callable[[MessageBatch], bool] = lambda batch: True
    calls: int = 0

    def on_consume(self, batch: MessageBatch) -> None:
        self.calls += 1
        if self.is_broken and self.concerns(batch):
            raise LookupError("no key")


class Batches(ConsumerGroupHandler):
    """A handler that keeps its batches."""

    def __init__(self) -> None:
        self.batches: list[MessageBatch] = []

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for batch in claim.batches():
            self.batches.append(batch)
            session.mark_batch(batch)

    def values(self) -> list[bytes | None]:
        return [message.value for batch in self.batches for message in batch]


class OneStream(StreamHandler):
    def __init__(self, by_batch: bool) -> None:
        self.messages: list[Message] = []
        self._by_batch = by_batch

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        if self._by_batch:
            async for batch in stream.batches():
                self.messages += batch
        else:
            async for message in stream:
                self.messages.append(message)

    def values(self) -> list[bytes | None]:
        return [message.value for message in self.messages]


# -- messages of the handler --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [Recorder, Batches, lambda: OneStream(True), lambda: OneStream(False)],
    ids=["messages", "batches", "stream batches", "stream messages"],
)
async def test_handler_gets_the_messages_of_interceptors_in_order(
    autojump_clock: MockClock, make: Callable[[], Any]
) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler, inner, outer = make(), Wrap("()"), Wrap("[]")
        await start_member(nursery, cluster, handler, interceptors=[inner, outer])
        await eventually(lambda: len(handler.values()) == 5)
        assert handler.values() == [b"[(%d)]" % n for n in range(5)]
        assert [n for seen in outer.seen for n in seen] == [n for seen in inner.seen for n in seen] == list(range(5))


async def test_changed_batch_has_the_changed_columns(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(b"k", b"%d" % n) for n in range(3)])
        handler = Batches()
        await start_member(nursery, cluster, handler, interceptors=[Wrap()])
        await eventually(lambda: len(handler.values()) == 3)
        [batch] = handler.batches
        table = batch.to_arrow().to_pydict()
        assert (table["key"], table["value"], table["offset"]) == ([b"k"] * 3, [b"(0)", b"(1)", b"(2)"], [0, 1, 2])
        assert (batch.next_offset, batch.size_bytes > 0) == (3, True)


async def test_interceptor_that_returns_no_change_keeps_the_batch(autojump_clock: MockClock) -> None:
    class Observing(ConsumerInterceptor):
        def __init__(self) -> None:
            self.batches: list[MessageBatch] = []

        def on_consume(self, batch: MessageBatch) -> None:
            self.batches.append(batch)

    class Same(ConsumerInterceptor):
        def on_consume(self, batch: MessageBatch) -> MessageBatch:
            return batch

    async with orders() as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 3)
        handler, observing = Batches(), Observing()
        await start_member(nursery, cluster, handler, interceptors=[observing, Same()])
        await eventually(lambda: len(handler.batches) == 1)
        assert handler.batches[0] is observing.batches[0]


async def test_consumer_without_a_group_gets_changed_messages(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 3)
        async with Watched(cluster, interceptors=[Wrap()]) as consumer:
            async with consumer.consume_partition("orders", 0, 1) as claim:
                assert [message.value for message in await take(claim, 2)] == [b"(1)", b"(2)"]


async def test_interceptor_sees_each_message_once_despite_pauses(
    autojump_clock: MockClock,
) -> None:
    async with orders() as cluster, deadline():
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        wrap = Wrap()
        async with Watched(cluster, interceptors=[wrap]) as consumer:
            async with consumer.consume_partition("orders", 0, 4) as claim:
                assert wrap.seen == []
                await take(claim, 2)
                consumer.pause_all()
                await trio.sleep(10)
                consumer.resume_all()
                assert [message.value for message in await take(claim, 4)] == [b"(x)"] * 4
                assert wrap.seen == [[4, 5, 6, 7, 8, 9]]


# -- forbidden results ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda ms: ms[:-1], "each of the 5, with its topic, partition and offset, in the same order; it returned 4"),
        (lambda ms: [*ms, ms[-1]], "it returned 6"),
        (lambda ms: ms[::-1], "it returned 5, and orders-0 at offset 4 instead of orders-0 at offset 0"),
        (lambda ms: [m.replace(offset=m.offset + 1) for m in ms], "offset 1 instead of orders-0 at offset 0"),
        (lambda ms: [m.replace(topic="t") for m in ms], "t-0 at offset 0 instead of orders-0 at offset 0"),
        (lambda ms: [], "it returned 0"),
        (lambda ms: [m.value for m in ms], "must return messages, or None"),
        (lambda ms: 5, "TypeError"),
    ],
)
@pytest.mark.parametrize("handler", [Recorder, Batches])
async def test_interceptor_that_drops_adds_or_moves_messages_fails(
    autojump_clock: MockClock, handler: type[Any], change: Callable[[list[Message]], Any], problem: str
) -> None:
    class Changing(ConsumerInterceptor):
        def on_consume(self, batch: MessageBatch) -> Any:
            return change(list(batch))

    async with orders() as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 5)
        reading = handler()
        member = await start_member(nursery, cluster, reading, interceptors=[Changing()])
        await member.ended.wait()
        error = claim_failure(member)
        assert isinstance(error, InterceptorError)
        assert problem in str(error)
        assert reading.values() == []


@pytest.mark.parametrize("make", [ConsumerGroup, Consumer])
def test_invalid_interceptor_is_refused(make: Any) -> None:
    class Odd(ConsumerInterceptor):
        on_error = "ignore"  # type: ignore[assignment]

    arguments = (["localhost:9092"], "g") if make is ConsumerGroup else (["localhost:9092"],)
    with pytest.raises(ConfigError, match="must be ConsumerInterceptors"):
        make(*arguments, interceptors=[print])
    with pytest.raises(ConfigError, match="on_error of Odd = 'ignore': must be 'raise' or 'skip'"):
        make(*arguments, interceptors=[Odd()])


# -- interceptors that raise ---------------------------------------------------------------------------------


async def test_raising_interceptor_is_named_and_ends_the_session(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 4)
        fill(cluster, 9, partition=1)
        handler = Recorder()
        broken = Broken(concerns=lambda batch: batch.partition == 0 and batch.first_offset == 3)
        member = await start_member(nursery, cluster, handler, interceptors=[Wrap(), broken])
        await member.ended.wait()
        error = failure(member)
        assert isinstance(error, ClaimError)
        assert (error.partition, error.offset) == (PARTITION, 3)
        cause = error.__cause__
        assert isinstance(cause, InterceptorError)
        assert (cause.interceptor, cause.partition, cause.offset, cause.last_offset) == ("Broken", PARTITION, 3, 3)
        assert isinstance(cause.__cause__, LookupError)
        event = InterceptorFailed("Broken", "on_consume", PARTITION, 3, "LookupError('no key')", False)
        assert member.seen(InterceptorFailed) == [event]
        assert handler.calls[-1] == "cleanup"
        assert committed(cluster)["orders-0"] == 3, "handled messages are committed, and no others"


@pytest.mark.parametrize("by_batch", [True, False])
async def test_messages_of_a_raising_interceptor_stay_next(autojump_clock: MockClock, by_batch: bool) -> None:
    async with orders() as cluster, deadline():
        cluster.produce_many("orders", 0, [(None, b"x")] * 5)
        fill(cluster, 2)
        broken = Broken()
        async with Watched(cluster, interceptors=[broken]) as consumer:
            async with consumer.consume_partition("orders", 0, 2) as claim:
                for _ in range(3):
                    with pytest.raises(InterceptorError):
                        await anext(aiter(claim.batches() if by_batch else claim))
                    assert claim.position == 2
                broken.is_broken = False
                assert [message.offset for message in await take(claim, 5)] == list(range(2, 7))
                assert len(consumer.seen(InterceptorFailed)) == 3


async def test_raising_interceptor_of_a_stream_names_the_partition(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 4)
        fill(cluster, 4, partition=1)
        broken = Broken(concerns=lambda batch: batch.partition == 1 and batch.first_offset == 2)
        member = await start_member(nursery, cluster, OneStream(False), interceptors=[broken])
        await member.ended.wait()
        error = failure(member)
        assert isinstance(error, ClaimError)
        assert (error.partition, error.offset) == (TopicPartition("orders", 1), 2)
        assert isinstance(error.__cause__, InterceptorError)


async def test_skipped_interceptor_is_reported_once_per_partition(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        broken, handler = Broken(on_error="skip"), Recorder()
        member = await start_member(nursery, cluster, handler, interceptors=[broken, Wrap()])
        for partition in (0, 1):
            fill(cluster, 10, partition)
        await handler.received(20)
        assert set(handler.values()) == {b"(%d)" % n for n in range(10)}, "the other interceptor still runs"
        assert sorted(member.seen(InterceptorFailed), key=lambda event: event.partition) == [
            InterceptorFailed("Broken", "on_consume", TopicPartition("orders", n), 0, "LookupError('no key')", True)
            for n in (0, 1)
        ]
        broken.is_broken = False
        fill(cluster, 1, 0)
        await handler.received(21)
        assert member.seen(InterceptorRecovered) == [InterceptorRecovered("Broken", "on_consume", PARTITION, 10)]
        broken.is_broken = True
        fill(cluster, 2, 0)
        await handler.received(23)
        assert [(e.partition, e.offset) for e in member.seen(InterceptorFailed)[2:]] == [(PARTITION, 11)]
        assert broken.calls == 23


async def test_invalid_result_of_a_skipped_interceptor_is_ignored(autojump_clock: MockClock) -> None:
    class Dropping(ConsumerInterceptor):
        on_error = "skip"

        def on_consume(self, batch: MessageBatch) -> Sequence[Message]:
            return []

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, interceptors=[Dropping()])
        await handler.received(5)
        [event] = member.seen(InterceptorFailed)
        assert "it returned 0" in event.error


# -- commits ------------------------------------------------------------------------------------------------


class Commits(ConsumerInterceptor):
    def __init__(self, broken: bool = False) -> None:
        self.is_broken = broken
        self.offsets: list[dict[str, int]] = []

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        if self.is_broken:
            raise LookupError("no table")
        self.offsets.append({str(partition): offset.offset for partition, offset in offsets.items()})


async def test_on_commit_is_called_after_each_commit(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        commits = Commits()
        member = await start_member(nursery, cluster, Recorder(), interceptors=[commits])
        await eventually(lambda: {"orders-0": 5} in commits.offsets)
        assert commits.offsets == [{str(tp): n for tp, n in e.offsets.items()} for e in member.seen(Committed)]


async def test_on_commit_is_called_for_a_consumer_without_a_group(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        commits = Commits()
        async with Watched(cluster, "g", interceptors=[commits]) as consumer:
            async with consumer.consume_partition("orders", 0, 0):
                consumer.mark_offset("orders", 0, 3)
                await consumer.commit()
        assert commits.offsets == [{"orders-0": 3}]


async def test_interceptor_raising_on_commit_is_reported_once(
    autojump_clock: MockClock,
) -> None:
    async with orders() as cluster, deadline() as nursery:
        broken, sound, handler = Commits(broken=True), Commits(), Recorder()
        member = await start_member(nursery, cluster, handler, interceptors=[broken, sound])
        for count in (5, 10, 15):
            fill(cluster, 5)
            await eventually(lambda count=count: committed(cluster) == {"orders-0": count})  # type: ignore[misc]
        [event] = member.seen(InterceptorFailed)
        assert (event.interceptor, event.call, event.partition) == ("Commits", "on_commit", None)
        assert sound.offsets[-1] == {"orders-0": 15}
        broken.is_broken = False
        fill(cluster, 1)
        await eventually(lambda: bool(member.seen(InterceptorRecovered)))
        assert not member.ended.is_set()
