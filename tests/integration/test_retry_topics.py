"""Failed messages on Apache Kafka: retry topics, dead letters, and a topic for dead letters that cannot be written."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from sarameya import (
    Config,
    ConsumerGroup,
    DeadLetterTopic,
    Event,
    Message,
    MessageHandler,
    RetryTopics,
    UnknownTopicError,
)
from sarameya.handling.letters import ERRORS
from sarameya.observe import Observer, Retrying
from tests.group.kit import eventually
from tests.integration.log_comparison import UNCOMMITTED, LogEnds, by_librdkafka
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import Record, send
from tests.integration.real_kafka.replicas import partitions_of

pytestmark = pytest.mark.integration

SECONDS = 90.0


class Fails(MessageHandler):
    """Fails all messages whose value is `bad`."""

    dead_letters = DeadLetterTopic()

    def __init__(self) -> None:
        self.failed: list[tuple[float, Message]] = []
        self.handled: list[bytes | None] = []

    async def handle(self, message: Message) -> None:
        if message.value == b"bad":
            self.failed.append((time.time(), message))
            raise ValueError("bad value")
        self.handled.append(message.value)


@asynccontextmanager
async def member(
    kafka: RealKafka, topic: str, handler: MessageHandler, *observers: Observer
) -> AsyncIterator[ConsumerGroup]:
    """Run a member of the group `TOPIC-group` until the block ends."""
    config = Config(offset_initial="oldest", autocommit_interval=0.1)
    with trio.fail_after(SECONDS):
        async with ConsumerGroup(kafka.bootstrap_servers, f"{topic}-group", config, observers=observers) as group:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(group.consume, [topic], handler)
                yield group
                group.close_nowait()


def letters(kafka: RealKafka, topic: str) -> list[tuple[Record, dict[str, str]]]:
    """Return the records of a topic for dead letters, and their headers about the failure."""
    found = by_librdkafka(kafka, topic, UNCOMMITTED, LogEnds.of(kafka, topic, 1)).records[0]
    return [
        (
            record,
            {
                name.removeprefix(ERRORS): (value or b"").decode()
                for name, value in record.headers
                if name.startswith(ERRORS)
            },
        )
        for record in found
    ]


async def test_failed_message_passes_two_tiers_to_the_dead_letters(real_kafka: RealKafka) -> None:
    topic = real_kafka.create_topic("failing", 3)
    handler, delays = Fails(), (0.5, 1)
    handler.retry_topics = RetryTopics(delays)
    tiers, dead = ("failing.failing-group.retry.0.5s", "failing.failing-group.retry.1s"), "failing.failing-group.dead"
    records = [{"value": value, "key": b"k", "headers": {"trace": b"7"}, "partition": 1} for value in (b"bad", b"good")]
    send(real_kafka, topic, records)
    async with member(real_kafka, topic, handler):
        # Two messages, and the failed one once more in each tier.
        await real_kafka.until_committed("failing-group", 4, SECONDS)

    assert handler.handled == [b"good"]
    times = [at for at, _ in handler.failed]
    assert [late - early >= delay - 0.01 for early, late, delay in zip(times, times[1:], delays, strict=False)] == [
        True
    ] * 2
    seen = [(m.topic, m.partition, m.offset, m.key, m.headers) for _, m in handler.failed]
    assert seen == [(topic, 1, 0, b"k", (("trace", b"7"),))] * 3
    assert [len(partitions_of(real_kafka, name)) for name in (*tiers, dead)] == [3, 3, 1]
    ((letter, headers),) = letters(real_kafka, dead)
    assert (letter.key, letter.value, letter.headers[0]) == (b"k", b"bad", ("trace", b"7"))
    assert "in handle" in headers.pop("exception.stacktrace")
    headers.pop("timestamp")
    assert headers == {
        "topic": topic,
        "partition": "1",
        "offset": "0",
        "group": "failing-group",
        "attempts": "3",
        "exception.class": "builtins.ValueError",
        "exception.message": "bad value",
    }


async def test_missing_topic_for_dead_letters_is_refused_at_the_start(real_kafka: RealKafka) -> None:
    topic, handler = real_kafka.create_topic("without-dead-letters"), Fails()
    handler.dead_letters = DeadLetterTopic("no-such-topic", create=False)
    with trio.fail_after(SECONDS):
        async with ConsumerGroup(real_kafka.bootstrap_servers, topic) as group:
            with pytest.raises(UnknownTopicError, match="no-such-topic"):
                await group.consume([topic], handler)
    assert real_kafka.describe_group(topic) == []


async def test_unwritable_dead_letter_topic_holds_the_partition_back(real_kafka_of_three: RealKafka) -> None:
    kafka, handler, events = real_kafka_of_three, Fails(), list[Event]()
    one, two, three = kafka.nodes
    topic = kafka.create_topic("held", replicas=[[one.node_id, three.node_id]])
    dead = kafka.create_topic("held.held-group.dead", replicas=[[one.node_id, two.node_id]], min_insync_replicas=2)
    send(kafka, topic, [{"value": value} for value in (b"first", b"bad", b"last")])
    await trio.to_thread.run_sync(two.stop)
    async with member(kafka, topic, handler, events.append) as group:
        await eventually(lambda: any(isinstance(e, Retrying) and "NOT_ENOUGH_REPLICAS" in e.cause for e in events))
        (partition,) = group.status().partitions
        assert "storing the failed message held-0 offset 1" in partition.reason
        # The start offset that was looked up, 0, is committed before.
        commits = await kafka.until_commits("held-group", lambda commits: any(c.offset for c in commits.values()))
        assert {str(name): commit.offset for name, commit in commits.items()} == {"held-0": 1}
        two.start()
        await kafka.until_committed("held-group", 3, SECONDS)
    assert handler.handled == [b"first", b"last"]
    assert [record.value for record, _ in letters(kafka, dead)] == [b"bad"]
