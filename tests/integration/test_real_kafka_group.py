"""Groups of Sarameya on Kafka 4 and 3: records, assignments and commits, as Kafka's own tools show them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from sarameya import Claim, Config, ConsumerGroup, Message, Session
from tests.group.kit import Recorder
from tests.integration.real_kafka import GROUP_COMMAND, RealKafka
from tests.integration.real_kafka.producing import produce, produce_transaction

pytestmark = pytest.mark.integration

DEADLINE = 30.0
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@asynccontextmanager
async def member(
    kafka: RealKafka, group: str, topic: str, handler: Recorder, **options: object
) -> AsyncIterator[ConsumerGroup]:
    """Run a member during the block; it leaves in order at the end."""
    defaults = {"offset_initial": "oldest", "session_timeout": 2.0, "heartbeat_interval": 0.2}
    config = Config.from_mapping({**defaults, **options})
    async with ConsumerGroup(kafka.bootstrap_servers, group, config) as consumer_group, trio.open_nursery() as nursery:
        nursery.start_soon(consumer_group.consume, [topic], handler)
        yield consumer_group
        consumer_group.close_nowait()


def places(handler: Recorder) -> list[tuple[int, int]]:
    return sorted((message.partition, message.offset) for message in handler.messages)


def claimed(handler: Recorder) -> set[int]:
    """Return the partitions of the handler's latest session."""
    return {partition for partitions in handler.sessions[-1].claims.values() for partition in partitions}


@pytest.mark.parametrize("codec", CODECS)
async def test_every_codec_is_read_once_and_in_order(real_kafka_any: RealKafka, codec: str) -> None:
    topic = real_kafka_any.create_topic(f"codec-{codec}", 4)
    produced = produce(real_kafka_any, topic, [b"value %d" % n for n in range(20_000)], compression_type=codec)
    handler = Recorder()

    with trio.fail_after(DEADLINE):
        async with member(real_kafka_any, f"codec-{codec}", topic, handler):
            await handler.received(len(produced))

    assert places(handler) == sorted(produced)
    for partition in range(4):
        offsets = handler.offsets(topic, partition)
        assert offsets == sorted(offsets)


async def test_message_equals_the_produced_record(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("whole")
    headers: list[tuple[str, str | bytes | None]] = [("trace", b"\x00\xff"), ("none", None), ("trace", b"again")]
    produce(real_kafka_any, topic, [b"first"], key=b"k", headers=headers)
    produce(real_kafka_any, topic, [None])
    handler = Recorder()

    with trio.fail_after(DEADLINE):
        async with member(real_kafka_any, "whole", topic, handler):
            await handler.received(2)

    first, second = handler.messages
    assert (first.key, first.value, first.headers) == (b"k", b"first", tuple(headers))
    assert (second.key, second.value, second.headers) == (None, None, ())
    assert first.timestamp > 0
    assert first.leader_epoch == 0


async def test_leaving_member_hands_its_partitions_over(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("shared", 4)
    produced = produce(real_kafka_any, topic, [b"%d" % n for n in range(4_000)])
    stays, leaves = Recorder(), Recorder()

    with trio.fail_after(DEADLINE):
        async with member(real_kafka_any, "shared", topic, stays, client_id="stays"):
            await stays.received(len(produced))
            async with member(real_kafka_any, "shared", topic, leaves, client_id="leaves"):
                await leaves.until(lambda: bool(leaves.sessions))
                await stays.until(lambda: len(claimed(stays)) == 2)
                assert claimed(stays) | claimed(leaves) == {0, 1, 2, 3}
                lines = await trio.to_thread.run_sync(real_kafka_any.describe_group, "shared")
                assert {line.partition for line in lines if line.client_id == "stays"} == claimed(stays)
                assert {line.partition for line in lines if line.client_id == "leaves"} == claimed(leaves)
                more = await trio.to_thread.run_sync(produce, real_kafka_any, topic, [b"%d" % n for n in range(400)])
                await stays.until(lambda: set(places(stays)) >= {place for place in more if place[0] in claimed(stays)})
                await leaves.until(lambda: set(places(leaves)) == more - set(places(stays)))
            await stays.until(lambda: len(claimed(stays)) == 4)

    produced |= more
    assert sorted(places(stays) + places(leaves)) == sorted(produced)  # each record once, since no member was killed
    lines = real_kafka_any.describe_group("shared")
    assert [line.lag for line in lines] == [0, 0, 0, 0]
    assert sum(line.committed or 0 for line in lines) == len(produced)


async def test_next_member_starts_at_the_commit(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("resumed")
    produce(real_kafka_any, topic, [b"%d" % n for n in range(10)])
    first, second = Recorder(), Recorder()

    with trio.fail_after(DEADLINE):
        async with member(real_kafka_any, "resumed", topic, first):
            await first.received(10)
        produce(real_kafka_any, topic, [b"new"])
        async with member(real_kafka_any, "resumed", topic, second):
            await second.received(1)

    assert second.values() == [b"new"]


async def test_member_starts_at_offsets_set_by_kafkas_tool(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("rewound")
    produce(real_kafka_any, topic, [b"%d" % n for n in range(10)])
    real_kafka_any.run_tool(
        GROUP_COMMAND,
        *("--group", "rewound", "--topic", topic, "--reset-offsets", "--to-offset", "7", "--execute"),
    )
    handler = Recorder()

    with trio.fail_after(DEADLINE):
        async with member(real_kafka_any, "rewound", topic, handler):
            await handler.received(3)

    assert handler.values() == [b"7", b"8", b"9"]


async def test_slow_handler_keeps_its_membership_on_kafka(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("slow")
    produce(real_kafka_any, topic, [b"slow", b"next"])

    async def think(_: Session, __: Claim, message: Message) -> None:
        if message.value == b"slow":
            await trio.sleep(3.0)  # three session timeouts, in real time

    handler = Recorder(think)
    with trio.fail_after(DEADLINE):
        async with member(real_kafka_any, "slow", topic, handler, session_timeout=1.0):
            await handler.received(2)

    assert handler.values() == [b"slow", b"next"]
    assert len(handler.sessions) == 1


async def test_aborted_transaction_is_hidden_under_read_committed(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("transacted")
    produce_transaction(real_kafka_any, topic, b"aborted", commit=False)
    produce_transaction(real_kafka_any, topic, b"committed", commit=True)
    produce(real_kafka_any, topic, [b"plain"])
    careful, careless = Recorder(), Recorder()

    with trio.fail_after(DEADLINE):
        async with (
            member(real_kafka_any, "careful", topic, careful, isolation_level="read_committed"),
            member(real_kafka_any, "careless", topic, careless),
        ):
            await careful.received(2)
            await careless.received(3)

    assert careful.values() == [b"committed", b"plain"]
    assert careless.values() == [b"aborted", b"committed", b"plain"]


async def test_group_survives_a_stopped_coordinator(real_kafka_of_three: RealKafka) -> None:
    kafka = real_kafka_of_three
    topic = kafka.create_topic("survived", 6)
    produced = produce(kafka, topic, [b"%d" % n for n in range(600)])
    handler = Recorder()

    with trio.fail_after(2 * DEADLINE):
        async with member(kafka, "survived", topic, handler, session_timeout=10.0):
            await handler.received(len(produced))
            coordinator = await trio.to_thread.run_sync(kafka.coordinator, "survived")
            await trio.to_thread.run_sync(coordinator.stop)
            produced |= await trio.to_thread.run_sync(produce, kafka, topic, [b"%d" % n for n in range(600)])
            await handler.until(lambda: set(places(handler)) >= produced)

    assert set(places(handler)) == produced
