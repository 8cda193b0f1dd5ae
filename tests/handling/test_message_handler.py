"""`MessageHandler`: concurrency, order, retries, time limits, threads, and the stop of a claim."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    CircuitBreaker,
    ClaimError,
    ConfigError,
    ConsumerGroup,
    DeadLetterTopic,
    DecodeError,
    HandlerError,
    HandlerTimeoutError,
    Message,
    MessageHandler,
    Retry,
    Session,
)
from sarameya.handling.calls import Calls
from sarameya.model import TimestampType
from sarameya.observe import Retrying, TaskStuck
from sarameya.testing import ClaimFeed, memory_cluster
from tests.group.kit import deadline, eventually, fill, orders, start_member
from tests.handling.kit import member_of

REQUEST = ContextVar("REQUEST", default="none")


class Sleeps(MessageHandler):
    """A handler that sleeps as many seconds as the value of the message."""

    ordering = "none"

    def __init__(self) -> None:
        self.started: list[int] = []
        self.finished: list[int] = []
        self.cancelled: list[int] = []

    async def handle(self, message: Message) -> None:
        self.started.append(message.offset)
        try:
            await trio.sleep(float(message.value or b"0"))
        except trio.Cancelled:
            self.cancelled.append(message.offset)
            raise
        self.finished.append(message.offset)


def feed_of(*messages: tuple[bytes | None, bytes]) -> ClaimFeed:
    feed = ClaimFeed()
    for key, value in messages:
        feed.send(value, key)
    return feed


async def test_partition_is_handled_in_order(autojump_clock: MockClock) -> None:
    handler, feed = Sleeps(), feed_of((b"a", b"3"), (b"b", b"1"), (None, b"2"))
    handler.ordering = "partition"
    feed.end()
    await feed.run(handler)
    assert handler.finished == [0, 1, 2]
    assert feed.committed == 3


async def test_keys_are_handled_concurrently_and_each_in_order(autojump_clock: MockClock) -> None:
    handler, feed = Sleeps(), feed_of((b"a", b"3"), (b"b", b"1"), (b"a", b"1"), (b"b", b"1"), (None, b"0.5"))
    handler.ordering = "key"
    feed.end()
    await feed.run(handler)
    assert handler.finished == [4, 1, 3, 0, 2]
    assert feed.committed == 5


async def test_messages_without_ordering_are_handled_concurrently(autojump_clock: MockClock) -> None:
    handler, feed = Sleeps(), feed_of((b"a", b"3"), (b"a", b"1"), (b"a", b"2"))
    feed.end()
    await feed.run(handler)
    assert handler.finished == [1, 2, 0]


async def test_context_variables_are_not_shared_by_messages(autojump_clock: MockClock) -> None:
    """Otherwise the request id of one message appears in the log lines of another."""
    seen: list[str] = []

    class Sets(MessageHandler):
        ordering = "none"
        concurrency = 2

        async def handle(self, message: Message) -> None:
            seen.append(REQUEST.get())
            if message.offset % 2:
                REQUEST.set(f"{message.offset}")
            await trio.lowlevel.checkpoint()

    feed = feed_of(*[(None, b"")] * 20)
    feed.end()
    await feed.run(Sets())
    assert seen == ["none"] * 20


class CannotBeCompared:
    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = object.__hash__


async def test_context_variables_may_have_any_value(autojump_clock: MockClock) -> None:
    array = ContextVar[object]("array")

    class Sets(Sleeps):
        async def setup(self, session: Session) -> None:
            array.set(CannotBeCompared())

        async def handle(self, message: Message) -> None:
            array.set(CannotBeCompared())

    array.set(CannotBeCompared())
    handler, feed = Sets(), feed_of(*[(None, b"")] * 3)
    feed.end()
    await feed.run(handler)
    assert feed.committed == 3


async def test_concurrency_is_limited(autojump_clock: MockClock) -> None:
    handler, feed = Sleeps(), feed_of(*[(None, b"1")] * 10)
    handler.concurrency = 3
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(0.5)
        assert len(handler.started) == 3
        await trio.sleep(1)
        assert len(handler.started) == 6
        feed.end()
    assert feed.committed == 10


async def test_revoked_partition_finishes_running_messages_only(autojump_clock: MockClock) -> None:
    handler, feed = Sleeps(), feed_of(*[(b"a", b"1")] * 3, *[(b"b", b"1")] * 3)
    handler.ordering = "key"
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(0.5)
        feed.end(now=True)
    assert sorted(handler.started) == sorted(handler.finished) == [0, 3]
    assert feed.committed == 1
    feed.end()
    await feed.run(handler)
    assert sorted(handler.started) == [0, 1, 2, 3, 4, 5]


async def test_unfinished_message_is_cancelled_after_the_grace(autojump_clock: MockClock) -> None:
    handler, feed = Sleeps(), feed_of((None, b"1e6"), (None, b"1"))
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(2)
        feed.end(now=True)
    assert handler.cancelled == [0]
    feed.end()
    with trio.move_on_after(5):
        await feed.run(successor := Sleeps())
    assert successor.started == [0], "a finished message was handled again"


async def test_message_without_a_slot_does_not_delay_a_revocation(autojump_clock: MockClock) -> None:
    """A slow message of one partition must not delay the stop of another partition."""
    async with memory_cluster({"orders": 2}) as cluster:
        cluster.produce("orders", 0, b"1000")
        handler = Sleeps()
        handler.concurrency = 1
        group = member_of(cluster)
        async with trio.open_nursery() as nursery, group:
            nursery.start_soon(group.consume, ["orders"], handler)
            await eventually(lambda: handler.started == [0])
            cluster.produce("orders", 1, b"1")
            await trio.sleep(10)
            async with member_of(cluster) as other:
                nursery.start_soon(other.consume, ["orders"], second := Sleeps())
                await eventually(lambda: second.started == [0])
                assert handler.finished == []
                nursery.cancel_scope.cancel()


async def test_handler_object_serves_one_group_at_a_time(autojump_clock: MockClock) -> None:
    handler, feed = Sleeps(), feed_of((None, b"1"))
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        with pytest.raises(RuntimeError, match="in use by another consume"):
            await ClaimFeed().run(handler)
        feed.end()


async def test_handler_object_is_in_use_from_its_start(autojump_clock: MockClock) -> None:
    handler = Sleeps()
    handler.dead_letters = DeadLetterTopic()  # opening its producer takes a while
    refused: list[str] = []

    async def consume(group: ConsumerGroup) -> None:
        try:
            await group.consume(["orders"], handler)
        except RuntimeError as error:
            refused.append(str(error))

    async with memory_cluster({"orders": 1}) as cluster, member_of(cluster) as one, member_of(cluster, "g") as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume, one)
            nursery.start_soon(consume, other)
            cluster.produce("orders", 0, b"0")
            await eventually(lambda: handler.finished == [0])
            one.close_nowait()
            other.close_nowait()
    assert refused == ["this Sleeps is in use by another consume(): create an object for each"]


async def test_close_empties_the_queue_for_time_slices(autojump_clock: MockClock) -> None:
    handler = Sleeps()
    handler.concurrency = 100
    async with memory_cluster({"orders": 1}) as cluster, member_of(cluster) as group:
        for _ in range(100):
            cluster.produce("orders", 0, b"1000")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, ["orders"], handler)
            await eventually(lambda: len(handler.started) > 20)
            assert group._runtime is not None
            queue = group._runtime.handler_time._queue
            assert queue
            group.close_nowait()
        assert not queue


async def test_queued_message_is_not_started_after_close(autojump_clock: MockClock) -> None:
    class Notes(Sleeps):
        def __init__(self) -> None:
            super().__init__()
            self.times: list[float] = []

        async def handle(self, message: Message) -> None:
            self.times.append(trio.current_time())
            await super().handle(message)

    handler = Notes()
    handler.concurrency = 100
    async with memory_cluster({"orders": 1}) as cluster, member_of(cluster) as group:
        for _ in range(100):
            cluster.produce("orders", 0, b"5")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, ["orders"], handler)
            await eventually(lambda: len(handler.started) > 20)
            group.close_nowait()
    assert len(handler.finished) == len(handler.started) < 100
    assert max(handler.times) - min(handler.times) < 5, "a queued message was started after the first ones"


async def test_failure_names_its_message_and_commits_finished_ones(autojump_clock: MockClock) -> None:
    class Fails(Sleeps):
        async def handle(self, message: Message) -> None:
            await super().handle(message)
            if message.offset == 1:
                raise ValueError("bad")

    feed = feed_of((None, b"1"), (None, b"2"), (None, b"1"), (None, b"9"))
    with pytest.raises(ExceptionGroup) as raised:
        await feed.run(handler := Fails())
    (error,) = raised.value.exceptions
    assert isinstance(error, ClaimError)
    assert (error.offset, str(error.cause)) == (1, "bad")
    assert handler.cancelled == [3]
    assert feed.committed == 1
    feed.end()
    await feed.run(successor := Sleeps())
    assert sorted(successor.started) == [1, 3]


class Recovers(MessageHandler):
    """A handler that fails in the first `failures` calls."""

    def __init__(self, failures: int, error: Callable[[], Exception] = OSError) -> None:
        self.failures = failures
        self.error = error
        self.calls: list[tuple[int, float]] = []

    async def handle(self, message: Message) -> None:
        self.calls.append((message.offset, trio.current_time()))
        if len(self.calls) <= self.failures:
            raise self.error()


async def test_failed_message_is_retried_in_place(autojump_clock: MockClock) -> None:
    handler, feed = Recovers(failures=2), feed_of((None, b""), (None, b""))
    handler.retry = Retry(attempts=3, backoff=1, backoff_max=10)
    feed.end()
    await feed.run(handler)
    assert [offset for offset, _ in handler.calls] == [0, 0, 0, 1]
    (_, first), (_, second), (_, third), _ = handler.calls
    assert 0.8 <= second - first <= 1.2
    assert 1.6 <= third - second <= 2.4
    retries = [event for event in feed.events if isinstance(event, Retrying)]
    assert [(event.what, event.attempt, event.kind) for event in retries] == [
        ("topic-0 offset 0", 1, "message"),
        ("topic-0 offset 0", 2, "message"),
    ]


async def test_delay_of_retries_has_a_maximum(autojump_clock: MockClock) -> None:
    handler, feed = Recovers(failures=6), feed_of((None, b""))
    handler.retry = Retry(attempts=7, backoff=1, backoff_max=5)
    feed.end()
    await feed.run(handler)
    times = [time for _, time in handler.calls]
    assert max(later - time for time, later in pairwise(times)) <= 6


async def test_last_attempt_fails_the_claim(autojump_clock: MockClock) -> None:
    handler, feed = Recovers(failures=9), feed_of((None, b""))
    handler.retry = Retry(attempts=3)
    with pytest.raises(ExceptionGroup) as raised:
        await feed.run(handler)
    assert raised.group_contains(ClaimError)
    assert len(handler.calls) == 3


@pytest.mark.parametrize("error", [ValueError, lambda: ExceptionGroup("", [OSError(), ValueError()])])
async def test_other_exceptions_are_not_retried(error: Callable[[], Exception], autojump_clock: MockClock) -> None:
    handler, feed = Recovers(failures=1, error=error), feed_of((None, b""))
    handler.retry = Retry(on=(OSError, KeyError))
    with pytest.raises(ExceptionGroup):
        await feed.run(handler)
    assert len(handler.calls) == 1


async def test_group_of_retried_exceptions_is_retried(autojump_clock: MockClock) -> None:
    handler, feed = Recovers(failures=1, error=lambda: ExceptionGroup("", [OSError()])), feed_of((None, b""))
    handler.retry = Retry(on=OSError)
    feed.end()
    await feed.run(handler)
    assert feed.committed == 1


async def test_waiting_retry_does_not_delay_the_stop_of_the_claim(autojump_clock: MockClock) -> None:
    handler, feed = Recovers(failures=9), feed_of((None, b""))
    handler.retry = Retry(attempts=9, backoff=3600, backoff_max=3600)
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(10)
        ended = trio.current_time()
        feed.end(now=True)
    assert trio.current_time() - ended < 1
    assert feed.committed == 0


async def test_message_that_waits_for_a_retry_frees_its_slot(autojump_clock: MockClock) -> None:
    handler, feed = Recovers(failures=2), feed_of((b"a", b""), (b"b", b""))
    handler.ordering, handler.concurrency, handler.retry = "key", 1, Retry(backoff=100, backoff_max=100)
    feed.end()
    await feed.run(handler)
    # Two keys start in any order, but neither is retried before both have been called.
    assert (
        sorted(offset for offset, _ in handler.calls[:2]) == sorted(offset for offset, _ in handler.calls[2:]) == [0, 1]
    )


async def test_slow_call_fails(autojump_clock: MockClock) -> None:
    handler, feed = Sleeps(), feed_of((None, b"100"))
    handler.max_handler_time = 5
    with pytest.raises(ExceptionGroup) as raised:
        await feed.run(handler)
    (error,) = raised.value.exceptions
    assert isinstance(error, ClaimError)
    assert isinstance(error.cause, HandlerTimeoutError)
    assert str(error.cause) == "topic-0 offset 0: the handler has not returned within 5 s"


async def test_plain_function_may_return_a_coroutine(autojump_clock: MockClock) -> None:
    """A decorator often hides that a function is a coroutine function."""

    class Wrapped(Sleeps):
        def handle(self, message: Message):  # type: ignore[no-untyped-def,override]
            return super().handle(message)

    handler, feed = Wrapped(), feed_of((b"a", b"0"))
    feed.end()
    await feed.run(handler)
    assert handler.finished == [0]


class Wrapped(MessageHandler):
    """A handler whose plain function returns a coroutine, as a decorator may."""

    def __init__(self) -> None:
        self.sleeps = Sleeps()

    def handle(self, message: Message):  # type: ignore[no-untyped-def]
        return self.sleeps.handle(message)


async def test_claim_stop_cancels_a_coroutine_of_a_plain_function() -> None:
    handler, feed = Wrapped(), feed_of((None, b"5"))
    feed.config = attrs.evolve(feed.config, claim_grace=0.01)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(feed.run, handler)
            await eventually(lambda: handler.sleeps.started == [0])
            feed.end(now=True)
    assert handler.sleeps.cancelled == [0]
    assert feed.committed == 0


async def test_time_limit_cancels_a_coroutine_of_a_plain_function() -> None:
    handler, feed = Wrapped(), feed_of((None, b"5"))
    handler.max_handler_time = 0.5
    with trio.fail_after(30), pytest.raises(ExceptionGroup) as raised:
        await feed.run(handler)
    assert raised.group_contains(ClaimError)
    assert isinstance(raised.value.exceptions[0].__cause__, HandlerTimeoutError)
    assert handler.sleeps.cancelled == [0]


class Yields(MessageHandler):
    def handle(self, message: Message):  # type: ignore[no-untyped-def]
        yield message


class YieldsAsync(MessageHandler):
    async def handle(self, message: Message):  # type: ignore[no-untyped-def,override]
        yield message


@pytest.mark.parametrize("kind", [Yields, YieldsAsync])
async def test_generator_is_refused(kind: type[MessageHandler], autojump_clock: MockClock) -> None:
    feed = feed_of((None, b""))
    feed.end()
    with pytest.raises(ConfigError, match=rf"{kind.__name__}\.handle = .* remove the `yield`"):
        await feed.run(kind())


class HandleWithSession(MessageHandler):
    async def handle(self, session: object, message: Message) -> None: ...  # type: ignore[override]


class HandleWithoutMessage(MessageHandler):
    def handle(self) -> None: ...  # type: ignore[override]


class HandleWithoutSelf(MessageHandler):
    async def handle(message) -> None: ...  # type: ignore[no-untyped-def,override]


@pytest.mark.parametrize("kind", [HandleWithSession, HandleWithoutMessage, HandleWithoutSelf])
async def test_handle_with_other_arguments_is_refused(kind: type[MessageHandler], autojump_clock: MockClock) -> None:
    """Otherwise each message becomes a dead letter."""
    handler, feed = kind(), feed_of((None, b""))
    handler.dead_letters = DeadLetterTopic()
    feed.end()
    with pytest.raises(ConfigError, match=r"handle = .*: must take one argument besides self: "):
        await feed.run(handler)
    assert feed.sent == []


@pytest.mark.parametrize("handle", [vars, lambda *messages: None, lambda message, url="": None])
async def test_handle_with_another_signature_is_accepted(handle: Any, autojump_clock: MockClock) -> None:
    """The builtin `vars` is compiled, and has no signature."""
    handler, feed = Sleeps(), feed_of()
    handler.handle = handle  # type: ignore[method-assign]
    feed.end()
    await feed.run(handler)


async def test_generator_of_a_plain_function_fails() -> None:
    class Hidden(MessageHandler):
        def handle(self, message: Message):  # type: ignore[no-untyped-def]
            return (yielded for yielded in "a")

    feed = feed_of((None, b""))
    feed.end()
    with pytest.raises(ExceptionGroup) as raised:
        await feed.run(Hidden())
    assert isinstance(raised.value.exceptions[0].__cause__, HandlerError)
    assert feed.committed == 0


class Blocks(MessageHandler):
    """A handler with a plain function that blocks."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.release = threading.Event()

    def handle(self, message: Message) -> None:
        self.threads.add(threading.get_ident())
        self.release.wait(30)


async def test_plain_function_runs_in_threads() -> None:
    handler, feed = Blocks(), feed_of(*[(None, b"")] * 5)
    handler.ordering = "none"
    feed.end()
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        with trio.fail_after(30):
            while len(handler.threads) < 5:
                await trio.sleep(0.01)
        handler.release.set()
    assert threading.get_ident() not in handler.threads
    assert feed.committed == 5


async def test_slow_thread_is_abandoned() -> None:
    handler, feed = Blocks(), feed_of((None, b""))
    handler.max_handler_time = 0.1
    with pytest.raises(ExceptionGroup) as raised:
        await feed.run(handler)
    handler.release.set()
    assert raised.group_contains(ClaimError)
    assert feed.committed == 0


class Hangs(Blocks):
    """A handler that blocks for messages with the value `hang`."""

    concurrency = 2
    ordering = "none"
    max_handler_time = 0.1
    dead_letters = DeadLetterTopic()

    def handle(self, message: Message) -> None:
        if message.value == b"hang":
            super().handle(message)


async def test_message_without_a_free_thread_fails_the_claim() -> None:
    """All threads are abandoned, so the member must leave. The message must not become a dead letter."""
    handler, feed = Hangs(), feed_of((None, b"hang"), (None, b"hang"), (None, b"good"))
    with trio.fail_after(60), pytest.raises(ExceptionGroup) as raised:
        await feed.run(handler)
    (error,) = raised.value.exceptions
    assert "offset 2: no thread was free within 0.1 s" in str(error)
    assert [record.value for record in feed.sent] == [b"hang"] * 2
    assert feed.committed == 2
    handler.release.set()
    feed.end()
    await feed.run(Hangs())
    assert feed.committed == 3


async def test_message_without_a_thread_waits_for_an_open_circuit() -> None:
    handler, feed = Hangs(), feed_of((None, b"hang"), (None, b"hang"), (None, b"good"))
    handler.circuit_breaker = CircuitBreaker(failures=3, pause=0.1)
    feed.end()
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(1)
        handler.release.set()
    assert b"good" not in [record.value for record in feed.sent]
    assert feed.committed == 3


async def test_claim_stop_does_not_wait_for_threads_of_other_calls(autojump_clock: MockClock) -> None:
    calls = Calls(print, 1, 60.0, run=trio.to_thread.run_sync)
    async with calls._threads:
        with trio.move_on_after(1) as grace:
            await calls.call([Message("orders", 0, 0, 0, TimestampType.CREATE_TIME, None, b"")])
    assert grace.cancelled_caught
    assert trio.current_time() < 2


async def test_claim_stop_waits_for_its_threads() -> None:
    handler, feed = Blocks(), feed_of((None, b""))
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        with trio.fail_after(30):
            while not handler.threads:
                await trio.sleep(0.01)
        feed.end(now=True)
        await trio.sleep(0.2)
        handler.release.set()
    assert feed.committed == 1


async def test_stuck_thread_is_reported_and_the_member_leaves(autojump_clock: MockClock) -> None:
    class Begins(Blocks):
        began = threading.Event()

        def handle(self, message: Message) -> None:
            self.began.set()
            super().handle(message)

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 1)
        handler = Begins()
        member = await start_member(nursery, cluster, handler, claim_grace=1, close_timeout=10)
        while not handler.began.wait(0.01):  # blocks the event loop, so virtual time does not advance
            await trio.sleep(0.1)
        member.group.close_nowait()
        await trio.sleep(11)
        (stuck,) = member.seen(TaskStuck)
        assert stuck.what == "claim of orders-0"
        assert "self.release.wait(30)" in stuck.stack
        assert not cluster.describe_group("g").members
        handler.release.set()
        await member.ended.wait()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("ordering", "keys"),
        ("concurrency", 0),
        ("concurrency", True),
        ("partition_concurrency", 0),
        ("max_handler_time", 0),
        ("max_handler_time", "5"),
        ("retry", 3),
        ("retry_topics", [60]),
        ("dead_letters", "dead"),
    ],
)
async def test_invalid_options_are_refused(option: str, value: object, autojump_clock: MockClock) -> None:
    handler = Sleeps()
    setattr(handler, option, value)
    with pytest.raises(ConfigError, match=option):
        await feed_of().run(handler)


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0},
        {"backoff": -1},
        {"backoff": 60},
        {"backoff_max": "1"},
        {"on": "OSError"},
        {"on": (OSError, 5)},
        {"on": (OSError, DecodeError)},
    ],
)
def test_invalid_retries_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        Retry(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dead_letter": DeadLetterTopic()}, "dead_letter = .*: no such option; did you mean 'dead_letters'"),
        ({"on_failure": Retry()}, "on_failure = .*: no such option; allowed are"),
        ({"max_handle_time": 5}, "no such option; did you mean 'max_handler_time'"),
        ({"batch_size": 5}, "batch_size = 5: is an option of a BatchHandler only"),
        ({"dead_letters": DeadLetterTopic}, "must be a DeadLetterTopic, or None"),
        ({"circuit_breaker": CircuitBreaker()}, "needs dead_letters or retry_topics"),
        ({"consume_claim": Sleeps.setup}, "consume_claim = .*: must not be defined: messages go to handle"),
    ],
)
async def test_option_without_an_effect_is_refused(options: dict[str, object], reason: str) -> None:
    handler, feed = type("Wrong", (Sleeps,), options)(), ClaimFeed()
    feed.end()
    with pytest.raises(ConfigError, match=reason):
        await feed.run(handler)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("concurency", 5, "concurency = 5: no such option; did you mean 'concurrency'"),
        ("retries", Retry(), "retries = .*: no such option; did you mean 'retry'"),
    ],
)
async def test_attribute_of_an_object_without_an_effect_is_refused(name: str, value: object, reason: str) -> None:
    handler = Sleeps()
    setattr(handler, name, value)
    with pytest.raises(ConfigError, match=reason):
        await ClaimFeed().run(handler)


async def test_own_attributes_of_a_handler_are_accepted(autojump_clock: MockClock) -> None:
    class Own(Sleeps):
        process_order = dead = "x"
        retries = 5
        _concurrency = 3

        @property
        def processes_(self) -> int:
            return 1

        def retry_topic(self) -> None: ...

    feed = feed_of((None, b"0"))
    feed.end()
    await feed.run(Own())
    assert feed.committed == 1
