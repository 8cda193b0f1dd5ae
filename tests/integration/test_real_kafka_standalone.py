"""Partitions read without the group protocol, on Apache Kafka 4 and 3: start offsets, timestamps, and commits."""

from __future__ import annotations

import time
from functools import partial

import pytest
import trio

from sarameya import Claim, CommitError, Config, Consumer, TopicPartition, UnknownTopicError
from tests.group.kit import Recorder
from tests.integration.real_kafka import GROUP_COMMAND, RealKafka
from tests.integration.real_kafka.producing import produce, send
from tests.integration.test_real_kafka_group import member

pytestmark = pytest.mark.integration

DEADLINE = 30.0


async def values(claim: Claim, count: int) -> list[bytes | None]:
    return [(await anext(aiter(claim))).value for _ in range(count)]


async def test_partitions_start_at_the_requested_offsets(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("standalone", 3)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    now = int(time.time() * 1000)
    records = [
        {"value": b"%d" % n, "partition": number, "timestamp": now - (10 - n) * 60_000}
        for n in range(10)
        for number in (0, 1)
    ]
    send(real_kafka_any, topic, records, linger_ms=0)

    with trio.fail_after(DEADLINE):
        async with Consumer(real_kafka_any.bootstrap_servers, group_id="standalone") as consumer:
            assert list(await consumer.topic_partitions(topic)) == partitions
            assert list((await consumer.offsets(partitions, "newest")).values()) == [10, 10, 0]
            starts = await consumer.offsets(partitions, now - 3 * 60_000)
            assert list(starts.values()) == [7, 7, 0]
            async with consumer.consume_partitions(starts) as claims:
                assert await values(claims[partitions[0]], 3) == [b"7", b"8", b"9"]
                consumer.mark_offset(topic, 0, 8, "two left")
                await consumer.commit()
                consumer.end(claims[partitions[0]])
                new = [{"value": b"new", "partition": number} for number in range(3)]
                await trio.to_thread.run_sync(send, real_kafka_any, topic, new)
                assert await values(claims[partitions[1]], 4) == [b"7", b"8", b"9", b"new"]
                assert await values(claims[partitions[2]], 1) == [b"new"]
                consumer.mark_offset(topic, 1, 10)
            with pytest.raises(UnknownTopicError, match="has the partitions 0 to 2"):
                async with consumer.consume_partition(topic, 3):
                    pass

        lines = await trio.to_thread.run_sync(real_kafka_any.describe_group, "standalone")
        assert {line.partition: line.committed for line in lines} == {0: 8, 1: 10}
        assert {line.member_id for line in lines} == {None}

        async with Consumer(real_kafka_any.bootstrap_servers, group_id="standalone") as consumer:
            assert (await consumer.committed(partitions))[partitions[0]].metadata == "two left"
            async with consumer.consume_partition(topic, 0) as claim:
                assert await values(claim, 3) == [b"8", b"9", b"new"]


async def test_commit_by_kafkas_tool_is_the_start_offset(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("standalone-set")
    produce(real_kafka_any, topic, [b"%d" % n for n in range(10)])
    real_kafka_any.run_tool(
        GROUP_COMMAND,
        *("--group", "standalone-set", "--topic", topic, "--reset-offsets", "--to-offset", "7", "--execute"),
    )
    with trio.fail_after(DEADLINE):
        async with Consumer(real_kafka_any.bootstrap_servers, group_id="standalone-set") as consumer:
            async with consumer.consume_partition(topic, 0) as claim:
                assert await values(claim, 3) == [b"7", b"8", b"9"]


async def test_group_with_members_refuses_a_standalone_commit(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("standalone-used")
    produce(real_kafka_any, topic, [b"%d" % n for n in range(10)])
    handler = Recorder()
    config = Config(autocommit=False)

    with trio.fail_after(DEADLINE):
        async with Consumer(real_kafka_any.bootstrap_servers, config, group_id="standalone-used") as consumer:
            async with consumer.consume_partition(topic, 0, "oldest") as claim:
                async with member(real_kafka_any, "standalone-used", topic, handler):
                    await handler.received(10)
                    assert await values(claim, 5) == [b"0", b"1", b"2", b"3", b"4"]
                    consumer.mark_offset(topic, 0, 5)
                    with pytest.raises(CommitError, match="in use by subscribed members"):
                        await consumer.commit()
                await consumer.commit()
                committed = await consumer.committed([claim.topic_partition])
                assert committed[claim.topic_partition].offset == 5


async def test_reader_survives_a_stopped_broker(real_kafka_of_three: RealKafka) -> None:
    kafka = real_kafka_of_three
    topic = kafka.create_topic("standalone-survived", 6)
    produced = produce(kafka, topic, [b"%d" % n for n in range(600)])
    read: set[tuple[int, int]] = set()
    all_read = trio.Event()

    async def read_claim(consumer: Consumer, claim: Claim) -> None:
        async for message in claim:
            read.add((message.partition, message.offset))
            consumer.mark_message(message)
            if read >= produced:
                all_read.set()

    with trio.fail_after(2 * DEADLINE):
        async with Consumer(kafka.bootstrap_servers, group_id="standalone-survived") as consumer:
            partitions = await consumer.topic_partitions(topic)
            async with consumer.consume_partitions(partitions, "oldest") as claims, trio.open_nursery() as nursery:
                for claim in claims.values():
                    nursery.start_soon(read_claim, consumer, claim)
                await all_read.wait()
                await consumer.commit()  # a group that has committed nothing has no coordinator yet
                coordinator = await trio.to_thread.run_sync(kafka.coordinator, "standalone-survived")
                await trio.to_thread.run_sync(coordinator.stop)
                # Idempotent: a record that is retried at another leader would be in the log twice.
                produce_more = partial(produce, kafka, topic, [b"%d" % n for n in range(600)], enable_idempotence=True)
                produced |= await trio.to_thread.run_sync(produce_more)
                while not read >= produced:  # `produced` has grown since the readers compared it
                    await trio.sleep(0.05)
                nursery.cancel_scope.cancel()
        async with Consumer(kafka.bootstrap_servers, group_id="standalone-survived") as consumer:
            committed = await consumer.committed(partitions)

    assert read == produced
    assert sum(offset.offset for offset in committed.values() if offset is not None) == len(produced)
