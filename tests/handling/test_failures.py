"""Failed messages: retry topics, dead letters, and destinations that refuse them."""

from __future__ import annotations

import random
import re

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    ClaimError,
    ConfigError,
    DeadLettered,
    DeadLetterTopic,
    Event,
    FailedMessage,
    Message,
    MessageHandler,
    Retry,
    RetryTopics,
    SentToRetry,
    UnknownTopicError,
)
from sarameya.embedded import EmbeddedCluster
from sarameya.error_codes import ErrorCode
from sarameya.handling.options import delay_text
from sarameya.observe import Retrying
from sarameya.protocol.versions import Api
from sarameya.testing import ClaimFeed, memory_cluster, virtual_wall_clock
from tests.group.kit import committed, deadline, eventually, start_member
from tests.handling.kit import member_of
from tests.producer.kit import log


class Fails(MessageHandler):
    """A handler that fails for the value `bad`, at most `failures` times."""

    dead_letters = DeadLetterTopic()

    def __init__(self, failures: float = float("inf")) -> None:
        self.failures = failures
        self.calls: list[tuple[float, Message]] = []
        self.handled: list[bytes | None] = []

    async def handle(self, message: Message) -> None:
        self.calls.append((trio.current_time(), message))
        if message.value == b"bad" and self.failures > 0:
            self.failures -= 1
            raise ValueError("bad value")
        self.handled.append(message.value)


def partitions(cluster: EmbeddedCluster, topic: str) -> int:
    """Return the number of partitions of a topic, or 0 if it does not exist."""
    found = cluster._state.topics.get(topic)
    return 0 if found is None else len(found.partitions)


def letters_of(cluster: EmbeddedCluster, topic: str) -> list[tuple[bytes | None, dict[str, str]]]:
    """Return values and headers of the messages of a topic."""
    return [
        (message.value, {name: (value or b"").decode() for name, value in message.headers})
        for partition in range(partitions(cluster, topic))
        for message in log(cluster, partition, topic)
    ]


async def test_dead_letter_has_the_message_and_its_failure(autojump_clock: MockClock) -> None:
    feed, handler = ClaimFeed("orders", at=5, group="billing"), Fails()
    handler.retry = Retry(attempts=2)
    feed.send(b"bad", b"key", (("trace", b"7"),), timestamp=1234)
    feed.send(b"good")
    feed.end()
    await feed.run(handler)
    (letter,) = feed.sent
    assert (letter.topic, letter.value, letter.key) == ("orders.billing.dead", b"bad", b"key")
    headers = dict(letter.headers)
    stack = headers.pop("__sarameya.errors.exception.stacktrace")
    assert stack is not None
    assert b"in handle" in stack
    assert headers == {
        "trace": b"7",
        "__sarameya.errors.topic": b"orders",
        "__sarameya.errors.partition": b"0",
        "__sarameya.errors.offset": b"5",
        "__sarameya.errors.timestamp": b"1234",
        "__sarameya.errors.group": b"billing",
        "__sarameya.errors.attempts": b"2",
        "__sarameya.errors.exception.class": b"builtins.ValueError",
        "__sarameya.errors.exception.message": b"bad value",
    }
    assert handler.handled == [b"good"]
    assert feed.committed == 7
    assert [event.place for event in feed.events if isinstance(event, DeadLettered)] == ["topic orders.billing.dead"]


async def test_dead_letters_may_have_the_headers_of_kafka_connect(autojump_clock: MockClock) -> None:
    feed, handler = ClaimFeed("orders"), Fails()
    handler.dead_letters = DeadLetterTopic("letters", connect_headers=True)
    feed.send(b"bad")
    feed.end()
    await feed.run(handler)
    names = {name for name, _ in feed.sent[0].headers}
    assert names == {
        f"__connect.errors.{name}"
        for name in (
            *("topic", "partition", "offset", "timestamp", "connector.name", "task.id", "stage"),
            *("exception.class.name", "exception.message", "exception.stacktrace"),
        )
    }


async def test_function_receives_dead_letters(autojump_clock: MockClock) -> None:
    kept: list[FailedMessage] = []

    async def keep(failed: FailedMessage) -> None:
        kept.append(failed)

    feed, handler = ClaimFeed("orders"), Fails()
    handler.dead_letters = keep
    feed.send(b"bad")
    feed.end()
    await feed.run(handler)
    (failed,) = kept
    assert (failed.message.offset, str(failed.error), failed.attempts) == (0, "bad value", 1)
    assert feed.committed == 1


class BrokenText(Exception):
    def __str__(self) -> str:
        return str(self.args[0]["code"])


@pytest.mark.parametrize("retry", [None, Retry(attempts=2)])
async def test_exception_without_a_text_becomes_a_letter(retry: Retry | None, autojump_clock: MockClock) -> None:
    class Raises(Fails):
        async def handle(self, message: Message) -> None:
            raise BrokenText({})

    feed, handler = ClaimFeed("orders"), Raises()
    handler.retry = retry
    feed.send(b"")
    feed.end()
    await feed.run(handler)
    (letter,) = feed.sent
    headers = {name: (value or b"").decode() for name, value in letter.headers}
    assert headers["__sarameya.errors.exception.message"] == "(its text is unknown: __str__ raises KeyError)"
    assert "BrokenText" in headers["__sarameya.errors.exception.stacktrace"]
    assert feed.committed == 1


async def test_retry_topics_of_a_later_subscription_are_read_at_once(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1, "returns": 1}) as cluster, deadline() as nursery:
        handler = Fails(failures=1)
        handler.retry_topics = RetryTopics([10])
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(5)
        member.group.subscribe(["returns"])
        await trio.sleep(10)
        cluster.produce("returns", 0, b"bad")
        await trio.sleep(30)
        assert [message.topic for _, message in handler.calls] == ["returns"] * 2
        member.group.close_nowait()


async def test_failing_dead_letter_function_is_retried_before_a_commit(autojump_clock: MockClock) -> None:
    async def refuse(failed: FailedMessage) -> None:
        raise OSError("disk full")

    feed, handler = ClaimFeed("orders"), Fails()
    handler.dead_letters = refuse
    feed.send(b"bad")
    feed.send(b"good")
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(100)
        assert feed.committed == 0
        feed.end(now=True)
    assert handler.handled == []
    retries = [event for event in feed.events if isinstance(event, Retrying)]
    assert len(retries) > 3
    assert {(event.what, event.cause, event.kind) for event in retries} == {
        ("storing the failed message orders-0 offset 0", "OSError: disk full", "dead_letter")
    }


async def test_message_goes_through_retry_topics_to_the_dead_letters(autojump_clock: MockClock) -> None:
    handler = Fails()
    handler.retry_topics = RetryTopics([60, 3600])
    async with memory_cluster({"orders": 2}) as cluster, member_of(cluster) as group, trio.open_nursery() as nursery:
        cluster.produce("orders", 1, b"bad", key=b"k")
        nursery.start_soon(group.consume, ["orders"], handler)
        await eventually(lambda: len(handler.calls) == 1)
        cluster.produce("orders", 1, b"good", key=b"k")
        await eventually(lambda: handler.handled == [b"good"])

        def reasons() -> list[str]:
            return [row.reason for row in group.status().partitions if "is due" in row.reason]

        await eventually(lambda: bool(reasons()))
        (reason,) = reasons()
        assert " offset 0 is due at 2023-11-14 22:14:20 UTC; " in reason
        await trio.sleep(50)
        assert reasons() == [reason]
        await eventually(lambda: letters_of(cluster, "orders.billing.dead") != [])
        tiers = ("orders.billing.retry.1m", "orders.billing.retry.1h")
        assert [partitions(cluster, tier) for tier in tiers] == [2, 2]
        ((value, headers),) = letters_of(cluster, "orders.billing.dead")
        assert value == b"bad"
        assert headers["__sarameya.errors.attempts"] == "3"
        assert (headers["__sarameya.errors.topic"], headers["__sarameya.errors.partition"]) == ("orders", "1")
        assert "__sarameya.retry.due" not in headers
        first, second, third = [(time, message) for time, message in handler.calls if message.value == b"bad"]
        assert 60 <= second[0] - first[0] <= 62
        assert 3600 <= third[0] - second[0] <= 3602
        places = {(message.topic, message.partition, message.offset) for _, message in (first, second, third)}
        assert places == {("orders", 1, 0)}
        assert {message.headers for _, message in (first, second, third)} == {()}
        await group.close()
        assert committed(cluster, "billing")["orders-1"] == 2


async def test_message_handled_from_a_retry_topic_is_not_sent_again(autojump_clock: MockClock) -> None:
    handler = Fails(failures=1)
    handler.retry_topics = RetryTopics([60])
    feed = ClaimFeed("orders")
    feed.send(b"bad")
    feed.end()
    await feed.run(handler)
    (record,) = feed.sent
    assert [(event.topic, event.seconds) for event in feed.events if isinstance(event, SentToRetry)] == [
        ("orders.group.retry.1m", 60)
    ]
    tier = ClaimFeed(record.topic)
    tier.send(record.value, record.key, record.headers)
    tier.end()
    await tier.run(handler)
    assert handler.handled == [b"bad"]
    assert tier.sent == []


async def test_message_not_yet_due_waits_until_the_claim_stops(autojump_clock: MockClock) -> None:
    handler = Fails(failures=1)
    handler.retry_topics = RetryTopics([3600])
    feed = ClaimFeed("orders")
    feed.send(b"bad")
    feed.end()
    await feed.run(handler)
    (record,) = feed.sent
    tier = ClaimFeed(record.topic)
    tier.send(record.value, record.key, record.headers)
    async with trio.open_nursery() as nursery:
        await nursery.start(tier.run, handler)
        await trio.sleep(600)
        stopped = trio.current_time()
        tier.end(now=True)
    assert trio.current_time() - stopped < 1
    assert handler.handled == []
    assert tier.committed == 0


async def test_exception_without_a_retry_topic_fails_the_claim(autojump_clock: MockClock) -> None:
    handler, feed = Fails(), ClaimFeed("orders")
    handler.retry_topics, handler.dead_letters = RetryTopics([60], on=OSError), None
    feed.send(b"bad")
    with pytest.raises(ExceptionGroup) as raised:
        await feed.run(handler)
    assert raised.group_contains(ClaimError)
    assert feed.sent == []


async def test_refusing_dead_letter_topic_blocks_the_commit(autojump_clock: MockClock) -> None:
    handler = Fails()
    async with memory_cluster({"orders": 1}) as cluster, member_of(cluster) as group, trio.open_nursery() as nursery:
        cluster.fail_next(Api.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, 3)
        cluster.produce("orders", 0, b"bad")
        nursery.start_soon(group.consume, ["orders"], handler)
        await eventually(lambda: any(p.reason for p in group.status().partitions))
        (partition,) = group.status().partitions
        assert "storing the failed message orders-0 offset 0" in partition.reason
        assert committed(cluster, "billing").get("orders-0", 0) == 0
        await eventually(lambda: committed(cluster, "billing").get("orders-0") == 1)
        assert len(letters_of(cluster, "orders.billing.dead")) == 1
        await group.close()


async def test_dead_letter_topic_without_replicas_is_a_reason_at_once(autojump_clock: MockClock) -> None:
    """The producer itself retries for `Config.delivery_timeout`, two minutes by default."""
    handler, events = Fails(), list[Event]()
    async with memory_cluster({"orders": 1}) as cluster, member_of(cluster, observers=[events.append]) as group:
        cluster.fail_next(Api.PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS, None)
        cluster.produce("orders", 0, b"bad")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, ["orders"], handler)
            await trio.sleep(10)
            (partition,) = group.status().partitions
            assert "storing the failed message orders-0 offset 0" in partition.reason
            (what,) = {event.what for event in events if isinstance(event, Retrying) and "REPLICAS" in event.cause}
            assert what == "produce to orders.billing.dead-0"
            cluster.clear_faults()
            await eventually(lambda: committed(cluster, "billing").get("orders-0") == 1)
            await group.close()


async def test_missing_topic_raises_at_the_start_with_create_false(autojump_clock: MockClock) -> None:
    handler = Fails()
    handler.dead_letters = DeadLetterTopic("letters", create=False)
    async with memory_cluster({"orders": 1}) as cluster, member_of(cluster) as group:
        with pytest.raises(UnknownTopicError, match="letters"):
            await group.consume(["orders"], handler)


async def test_pattern_with_retry_topics_is_refused(autojump_clock: MockClock) -> None:
    handler = Fails()
    handler.retry_topics = RetryTopics([60])
    async with memory_cluster({"orders": 1}) as cluster, member_of(cluster) as group:
        with pytest.raises(ConfigError, match="retry_topics"):
            await group.consume(pattern=re.compile("orders"), handler=handler)


async def test_group_id_invalid_as_a_topic_name_is_refused(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, member_of(cluster, "my group") as group:
        with pytest.raises(ConfigError, match="no name of a topic"):
            await group.consume(["orders"], Fails())


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.5, "0.5s"), (1, "1s"), (90, "90s"), (60, "1m"), (3600, "1h"), (172_800, "2d")]
)
def test_delays_have_short_names(seconds: float, text: str) -> None:
    assert delay_text(seconds) == text


@pytest.mark.parametrize(
    "options",
    [
        {"delays": []},
        {"delays": [0]},
        {"delays": [True]},
        {"delays": 60},
        {"delays": [60, 60.0]},
        {"delays": [60], "topic": "retry"},
        {"delays": [60], "topic": "{topic}.{delay}.{other}"},
        {"delays": [60], "create": 1},
    ],
)
def test_invalid_retry_topics_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        RetryTopics(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"topic": ""}, {"topic": "{x}"}, {"topic": 5}, {"connect_headers": "yes"}])
def test_invalid_dead_letter_topics_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        DeadLetterTopic(**options)  # type: ignore[arg-type]


async def keep(failed: FailedMessage) -> None: ...


class Bound(MessageHandler):
    dead_letters = keep  # a function in a class is a method

    async def handle(self, message: Message) -> None: ...


async def test_dead_letter_function_that_became_a_method_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"needs `dead_letters = staticmethod\(...\)`"):
        await ClaimFeed("orders").run(Bound())


async def test_plain_dead_letter_function_is_refused(autojump_clock: MockClock) -> None:
    """Otherwise the function is called forever, since its result cannot be awaited."""

    def keep(failed: FailedMessage) -> None: ...

    handler = Fails()
    handler.dead_letters = keep  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=r"Fails\.dead_letters .* must be a coroutine function: write `async def`"):
        await ClaimFeed().run(handler)


async def test_builtin_dead_letter_function_fails_the_claim_once(autojump_clock: MockClock) -> None:
    kept: list[FailedMessage] = []
    handler, feed = Fails(), ClaimFeed("orders")
    handler.dead_letters = kept.append  # type: ignore[assignment]
    feed.send(b"bad")
    with trio.fail_after(60), pytest.raises(ExceptionGroup) as raised:
        await feed.run(handler)
    (error,) = raised.value.exceptions
    assert isinstance(error.__cause__, ConfigError)
    assert "write it as `async def`" in str(error.__cause__)
    assert len(kept) == 1


async def test_retry_topic_of_another_group_is_an_ordinary_topic(autojump_clock: MockClock) -> None:
    """Otherwise a failed message goes to a retry topic that no member reads."""
    billing, audit = Fails(), Fails()
    billing.retry_topics = RetryTopics([60])
    audit.retry_topics = RetryTopics([600])
    topic = "orders.billing.retry.1m"
    async with memory_cluster({"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"bad")
        async with member_of(cluster) as group, trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, ["orders"], billing)
            await eventually(lambda: letters_of(cluster, topic) != [])
            group.close_nowait()
        began = trio.current_time()
        async with member_of(cluster, "audit") as group, trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, [topic], audit)
            await eventually(lambda: letters_of(cluster, f"{topic}.audit.dead") != [])
            group.close_nowait()
    (first, message), (second, _) = audit.calls
    assert (message.topic, message.offset) == (topic, 0)
    assert first - began < 30, "waited for the due time of the other group"
    assert second - first >= 600


@pytest.mark.parametrize(
    "changed",
    [
        {"__sarameya.retry.due": b"9" * 400},
        {"__sarameya.errors.attempts": b""},
        {"__sarameya.errors.topic": b"other"},
        {"__sarameya.errors.topic": b"no topic", "__sarameya.errors.group": b"other"},
    ],
)
async def test_invalid_headers_in_a_retry_topic_are_ignored(
    autojump_clock: MockClock, changed: dict[str, bytes]
) -> None:
    handler = Fails(failures=1)
    handler.retry_topics = RetryTopics([60])
    feed = ClaimFeed("orders", group="billing")
    feed.send(b"bad")
    feed.end()
    await feed.run(handler)
    (record,) = feed.sent
    headers = {**dict(record.headers), "__sarameya.errors.group": b"audit", **changed}
    tier = ClaimFeed(record.topic, at=7, group="billing")
    tier.send(record.value, record.key, tuple(headers.items()))
    tier.end()
    await tier.run(handler)
    _, message = handler.calls[-1]
    assert (message.topic, message.offset) == (record.topic, 7)


async def test_pattern_that_matches_the_dead_letter_topic_is_refused(
    autojump_clock: MockClock,
) -> None:
    """Otherwise each letter creates another topic, `orders.billing.dead.billing.dead` and so on."""
    async with memory_cluster({"orders": 1}) as cluster, member_of(cluster, metadata_max_age=10) as group:
        cluster.produce("orders", 0, b"bad")
        with trio.fail_after(60), pytest.raises(ExceptionGroup) as raised:
            await group.consume(pattern=re.compile("orders.*"), handler=Fails())
        (error,) = raised.value.exceptions
        assert "is a topic that the handler reads" in str(error.__cause__)
        assert partitions(cluster, "orders.billing.dead") == 0
        assert committed(cluster, "billing").get("orders-0", 0) == 0


@pytest.mark.parametrize(
    ("letters", "topics"),
    [
        ("{topic}", ["orders"]),
        ("dead", ["orders", "dead"]),
        ("{topic}.dead", ["orders", "orders.dead"]),
        ("{topic}.{group}.retry.1m", ["orders"]),
    ],
)
async def test_dead_letter_topic_that_the_handler_reads_is_refused(
    autojump_clock: MockClock, letters: str, topics: list[str]
) -> None:
    handler = Fails()
    handler.dead_letters, handler.retry_topics = DeadLetterTopic(letters), RetryTopics([60])
    async with memory_cluster({"orders": 1, "dead": 1}) as cluster, member_of(cluster) as group:
        with pytest.raises(ConfigError, match="is a topic that the handler reads"):
            await group.consume(topics, handler)


@pytest.mark.parametrize("like_connect", [False, True])
async def test_letter_near_the_size_limit_has_no_stack(autojump_clock: MockClock, like_connect: bool) -> None:
    class Explains(MessageHandler):
        dead_letters = DeadLetterTopic(connect_headers=like_connect)

        async def handle(self, message: Message) -> None:
            raise ValueError("why " * 1000)

    value = random.Random(1).randbytes(3000)
    small = EmbeddedCluster({"orders": 1}, in_memory=True, max_batch_size=4000, wall_clock=virtual_wall_clock)
    async with small as cluster, member_of(cluster) as group:
        cluster.produce("orders", 0, value)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, ["orders"], Explains())
            await trio.sleep(60)
            group.close_nowait()
        ((found, headers),) = letters_of(cluster, "orders.billing.dead")
        assert committed(cluster, "billing")["orders-0"] == 1
    assert found == value
    prefix = "__connect.errors." if like_connect else "__sarameya.errors."
    assert headers[f"{prefix}exception.message"] == "why " * 25
    assert f"{prefix}exception.stacktrace" not in headers


async def test_redriven_letter_of_another_group_is_handled_as_written(autojump_clock: MockClock) -> None:
    """`sarameya letters redrive --to-retry-topic` sends letters of any group, and of connectors."""
    handler, topic = Fails(), "orders.billing.retry.1m"
    handler.retry_topics = RetryTopics([60])
    headers = {
        "__sarameya.errors.topic": b"orders",
        "__sarameya.errors.partition": b"0",
        "__sarameya.errors.offset": b"17",
        "__sarameya.errors.group": b"connect",
        "__sarameya.errors.attempts": b"1",
        "__sarameya.retry.due": b"1",
    }
    async with memory_cluster({"orders": 1, topic: 1}) as cluster, member_of(cluster) as group:
        cluster.produce(topic, 0, b"good", headers=tuple(headers.items()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, ["orders"], handler)
            await eventually(lambda: handler.handled == [b"good"])
            group.close_nowait()
    ((_, message),) = handler.calls
    assert (message.topic, message.offset, message.headers) == ("orders", 17, ())
