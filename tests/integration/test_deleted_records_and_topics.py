"""Logs of Apache Kafka that lose records before they are read: records are deleted, or the topic is recreated."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from itertools import chain
from typing import Any

import pytest
import trio

from sarameya import (
    Claim,
    Config,
    Consumer,
    Event,
    OffsetOutOfRangeError,
    TopicPartition,
    TopicRecreatedError,
)
from sarameya.observe import OffsetReset
from tests.group.kit import Recorder
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import send
from tests.integration.real_kafka.replicas import delete_records, delete_topic
from tests.integration.test_real_kafka_group import member

pytestmark = pytest.mark.integration

DEADLINE = 30.0
SMALL_FETCHES: dict[str, Any] = {"fetch_max_partition_bytes": 1000, "channel_buffer_fetches": 1}
"""Options with which a consumer fetches a few records ahead of its reader, but not all."""


def put(kafka: RealKafka, topic: str, count: int) -> None:
    """Produce `count` records to each of partitions 0 and 1, each in a batch of its own."""
    records = [{"value": b"%d" % n * 100, "partition": number} for n in range(count) for number in (0, 1)]
    send(kafka, topic, records, batch_num_messages=1)


async def offsets(claim: Claim, count: int) -> list[int]:
    return [(await anext(aiter(claim))).offset for _ in range(count)]


async def offsets_to(claim: Claim, last: int) -> list[int]:
    """Read up to this offset, and return all offsets."""
    read: list[int] = []
    while not read or read[-1] < last:
        read += await offsets(claim, 1)
    return read


async def test_reader_overtaken_by_retention_fails_or_is_reset(real_kafka_any: RealKafka) -> None:
    kafka = real_kafka_any
    topic = kafka.create_topic("overtaken", 2)
    short, whole = TopicPartition(topic, 0), TopicPartition(topic, 1)
    put(kafka, topic, 100)
    events: dict[str, list[OffsetReset]] = {policy: [] for policy in ("fail", "oldest", "newest")}
    claims: dict[str, Mapping[TopicPartition, Claim]] = {}

    def record_reset(policy: str, event: Event) -> None:
        if isinstance(event, OffsetReset):
            events[policy].append(event)

    with trio.fail_after(DEADLINE):
        async with AsyncExitStack() as stack:
            for policy in events:
                config = Config(**SMALL_FETCHES, offset_out_of_range=policy)
                watched = Consumer(kafka.bootstrap_servers, config, observers=[partial(record_reset, policy)])
                consumer = await stack.enter_async_context(watched)
                reading = consumer.consume_partitions([short, whole], "oldest")
                claims[policy] = await stack.enter_async_context(reading)
                assert await offsets(claims[policy][short], 10) == list(range(10))
            await trio.to_thread.run_sync(delete_records, kafka, topic, 0, 60)

            with pytest.raises(OffsetOutOfRangeError) as failed:
                await offsets(claims["fail"][short], 100)
            error = failed.value
            assert (error.partition, error.log_start, error.log_end, error.gone) == (short, 60, 100, 60 - error.offset)
            assert 10 <= error.offset < 60

            read = await offsets_to(claims["oldest"][short], 99)
            assert read == [*range(10, 60 - events["oldest"][0].gone), *range(60, 100)]
            [reset] = events["oldest"]
            assert (reset.partition, reset.after, reset.log_start, reset.log_end) == (short, 60, 60, 100)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(offsets_to, claims["newest"][short], 100)
                while not events["newest"]:
                    await trio.sleep(0.01)
                await trio.to_thread.run_sync(put, kafka, topic, 1)
            [reset] = events["newest"]
            assert (reset.after, reset.log_start, reset.log_end, reset.gone) == (100, 60, 100, 60 - reset.before)

            for policy in events:
                assert await offsets(claims[policy][whole], 101) == list(range(101))


async def test_recreated_topic_fails_claims_and_is_read_from_the_start(real_kafka_any: RealKafka) -> None:
    kafka = real_kafka_any
    topic = kafka.create_topic("again", 2)
    put(kafka, topic, 20)
    first, second = Recorder(), Recorder()

    def recreate() -> None:
        delete_topic(kafka, topic)
        kafka.create_topic(topic, 2)

    async def read_during_recreation() -> None:
        # No marked offset is committed before the topic is deleted: the final commit would apply to the new topic.
        async with member(kafka, "again", topic, first, autocommit_interval=1000.0):
            await first.received(40)
            await trio.to_thread.run_sync(recreate)
            await trio.sleep_forever()

    with trio.fail_after(DEADLINE):
        with pytest.raises(ExceptionGroup) as failed:
            await read_during_recreation()
        errors = [error.__cause__ for error in leaf_errors(failed.value)]
        assert errors
        for error in errors:
            assert isinstance(error, TopicRecreatedError)
            assert (error.partition.topic, error.offset) == (topic, 20)
            assert error.before != error.after
        assert first.offsets(topic, 0) == first.offsets(topic, 1) == list(range(20))

        put(kafka, topic, 30)
        async with member(kafka, "again", topic, second):
            await second.received(60)
    assert second.offsets(topic, 0) == second.offsets(topic, 1) == list(range(30))


def leaf_errors(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    nested = (leaf_errors(e) if isinstance(e, BaseExceptionGroup) else [e] for e in group.exceptions)
    return [*chain.from_iterable(nested)]
