"""The headers of dead letters: each writer's headers can be read, and the original message can be restored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from sarameya import DeadLetterTopic, FailedMessage, Message, MessageHandler, RetryTopics
from sarameya.handling.letters import REDRIVEN, Letter, LetterOrigin
from sarameya.model import NO_TIMESTAMP, Headers, TimestampType
from sarameya.testing import ClaimFeed
from sarameya_handlers.landing.dead_letters.letters import DeadLetter
from sarameya_handlers.landing.dead_letters.topic import _headers as sink_headers
from sarameya_handlers.landing.links import ChainKey, Link, Origin

LINK = Link(
    key=ChainKey("lake", "orders", 3),
    number=7,
    from_offset=100,
    to_offset=200,
    attempt="a" * 32,
    origin=Origin(group="g", topic_id="b" * 32),
)
SINK_LETTER = DeadLetter(offset=120, error="no number: 'x'", key=b"k", headers=(("h", b"1"), ("h", None)))

OWN_NAMES = st.text(max_size=8).filter(lambda name: not name.startswith("__"))
OWN_HEADERS = st.lists(st.tuples(OWN_NAMES, st.none() | st.binary(max_size=8))).map(tuple)


def message(headers: Headers = (), timestamp: int = 1234, value: bytes | None = b"value") -> Message:
    return Message("orders", 3, 17, timestamp, TimestampType.CREATE_TIME, b"key", value, headers)


def letter(headers: Headers) -> Letter:
    return Letter.of(message(headers).replace(topic="dead", partition=0, offset=5, timestamp=9999))


def failure(text: str = "bad value") -> Exception:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


@given(OWN_HEADERS, st.integers(-1, 2**40), st.integers(1, 100), st.text(max_size=20), st.booleans())
def test_letter_has_all_facts_of_the_failed_message(
    own: Headers, timestamp: int, attempts: int, text: str, like_connect: bool
) -> None:
    failed = FailedMessage(message(own, timestamp), failure(text), attempts, "billing")
    found = letter(failed.headers(like_connect=like_connect))
    assert (found.topic, found.partition, found.offset) == ("orders", 3, 17)
    assert found.timestamp == (None if timestamp == NO_TIMESTAMP else timestamp)
    assert (found.group, found.attempts) == ("billing", None if like_connect else attempts)
    assert (found.error_class, found.error_message) == ("builtins.ValueError", text)
    assert found.stack.startswith("Traceback")
    assert (found.own_headers, found.redriven) == (own, 0)
    assert found.redriven_headers() == (*own, (REDRIVEN, b"1"))
    assert dict(found.further) == ({"stage": "TASK_PUT", "task.id": "0"} if like_connect else {})


@given(OWN_HEADERS, st.integers(0, 3))
def test_redrives_are_counted_across_failures(own: Headers, times: int) -> None:
    sent = message(own)
    for _ in range(times):
        headers = letter(FailedMessage(sent, failure(), 1, "billing").headers()).redriven_headers()
        sent = message(headers)
    found = letter(FailedMessage(sent, failure(), 1, "billing").headers())
    assert (found.redriven, found.own_headers) == (times, own)
    assert sum(name == REDRIVEN for name, _ in sent.headers) == (times > 0)


@given(OWN_HEADERS, st.booleans(), st.integers(0, 2**40))
def test_message_is_restored_from_a_retry_topic(own: Headers, like_connect: bool, due: int) -> None:
    first = message(own)
    found = letter(FailedMessage(first, failure(), 4, "billing").headers(like_connect=like_connect))
    read = message(found.retry_headers(due)).replace(topic="orders.billing.retry.1m", partition=0, offset=8)
    origin = LetterOrigin.of(read)
    assert (origin.due, origin.attempts) == (due, 0 if like_connect else 4)
    assert origin.restore(read) == first.replace(headers=(*own, (REDRIVEN, b"1")))


def test_retry_topic_needs_an_origin() -> None:
    with pytest.raises(ValueError, match="first written"):
        letter(()).retry_headers(0)


def test_letter_of_the_spark_sink_is_read() -> None:
    found = letter(((REDRIVEN, b"2"), *SINK_LETTER.headers, *sink_headers(LINK, SINK_LETTER)))
    assert (found.topic, found.partition, found.offset, found.group) == ("orders", 3, 120, "g")
    assert (found.error_class, found.error_message) == ("", "no number: 'x'")
    assert dict(found.further) == {"sink": "lake", "link": "7", "attempt": "a" * 32}
    assert found.redriven == 2
    assert found.redriven_headers() == (*SINK_LETTER.headers, (REDRIVEN, b"3"))


def test_letter_of_kafka_connect_is_read() -> None:
    names = {
        "topic": "orders",
        "partition": "3",
        "offset": "17",
        "connector.name": "orders-sink",
        "task.id": "0",
        "stage": "VALUE_CONVERTER",
        "class.name": "org.apache.kafka.connect.json.JsonConverter",
        "exception.class.name": "org.apache.kafka.connect.errors.DataException",
        "exception.message": "Converting byte[] to Kafka Connect data failed",
        "exception.stacktrace": "org.apache...",
    }
    found = letter((("own", b"x"), *((f"__connect.errors.{name}", text.encode()) for name, text in names.items())))
    assert (found.topic, found.partition, found.offset, found.timestamp) == ("orders", 3, 17, None)
    assert (found.group, found.error_class) == ("orders-sink", names["exception.class.name"])
    assert dict(found.further) == {name: names[name] for name in ("task.id", "stage", "class.name")}
    assert found.own_headers == (("own", b"x"),)


def test_letter_of_a_letter_keeps_the_first_failure() -> None:
    """Kafka Connect and the Spark sink copy all headers, so those of the first failure are restored."""
    first = FailedMessage(message(), failure(), 2, "billing").headers()
    found = letter((*first, *sink_headers(LINK, SINK_LETTER)))
    assert (found.offset, found.error_class, found.error_message) == (120, "", "no number: 'x'")
    assert found.own_headers == first
    assert letter(found.own_headers).error_message == "bad value"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [f"__{by}.errors.{name}" for by in ("sarameya", "connect") for name in ("topic", "partition", "offset")]
                + ["__sarameya.errors.attempts", "__sarameya.retry.due", REDRIVEN, "", "own"]
            ),
            st.none() | st.binary(max_size=24) | st.integers().map(lambda number: str(number).encode()),
        )
    ).map(tuple)
)
def test_malformed_headers_are_unknown(headers: Headers) -> None:
    found = letter(headers)
    assert found.partition is None or 0 <= found.partition < 2**31
    assert found.offset is None or 0 <= found.offset < 2**63
    assert found.redriven >= 0
    assert found.redriven_headers()[-1][0] == REDRIVEN


class Fails(MessageHandler):
    """A handler that fails for all messages."""

    dead_letters = DeadLetterTopic()

    async def handle(self, message: Message) -> None:
        raise ValueError("bad value")


async def test_dead_letter_of_a_handler_has_the_number_of_redrives(autojump_clock: MockClock) -> None:
    handler, feed = Fails(), ClaimFeed("orders", group="billing")
    handler.retry_topics = RetryTopics([60])
    feed.send(b"bad", b"key", (("trace", b"7"), (REDRIVEN, b"2")))
    feed.end()
    await feed.run(handler)
    (retried,) = feed.sent
    tier = ClaimFeed(retried.topic, group="billing")
    tier.send(retried.value, retried.key, retried.headers)
    tier.end()
    await tier.run(handler)
    (dead,) = tier.sent
    assert dead.topic == "orders.billing.dead"
    found = letter(dead.headers)
    assert (found.redriven, found.attempts, found.own_headers) == (2, 2, (("trace", b"7"),))
