"""The producer on Apache Kafka 4 and 3: records as another client reads them, broken connections, stopped brokers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import pytest
import trio

from sarameya import (
    Config,
    KafkaError,
    MessageTooLargeError,
    Producer,
    ProducerRecord,
    RecordMetadata,
    TcpTransport,
    UnknownTopicError,
)
from sarameya.error_codes import ErrorCode
from sarameya_handlers.landing.dead_letters.letters import DeadLetter, DeadLetterError
from sarameya_handlers.landing.dead_letters.topic import TopicDeadLetters
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from tests.group.kit import Through
from tests.integration.log_comparison import UNCOMMITTED, LogEnds, by_librdkafka
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.node import Node
from tests.integration.real_kafka.producing import Record, send
from tests.integration.real_kafka.replicas import await_all_in_sync

pytestmark = pytest.mark.integration

DEADLINE = 60.0
ENDED_SECONDS = 30.0
"""The longest permitted wait of a partition for another leader.

Measured: 2.3 s after a broker was stopped, 8.6 s after one was killed.
"""
HEADERS = (("a", b"1"), ("a", None), ("b", b"\xff"))


async def read(kafka: RealKafka, topic: str, partitions: int) -> dict[int, list[Record]]:
    """Return all records that librdkafka reads from the topic."""

    def whole() -> dict[int, list[Record]]:
        return by_librdkafka(kafka, topic, UNCOMMITTED, LogEnds.of(kafka, topic, partitions)).records

    return await trio.to_thread.run_sync(whole)


async def read_values(kafka: RealKafka, topic: str) -> list[bytes | None]:
    return [record.value for record in (await read(kafka, topic, 1))[0]]


async def test_records_of_every_compression_are_readable_by_librdkafka(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("produced", 3)
    sent: dict[RecordMetadata, tuple[int, bytes | None, bytes | None, Any]] = {}
    with trio.fail_after(DEADLINE):
        for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
            config = Config(compression=compression)  # type: ignore[arg-type]
            async with Producer(real_kafka_any.bootstrap_servers, config) as producer:
                now = int(time.time() * 1000)
                records = [
                    ProducerRecord(
                        topic, b"v" * n if n else None, b"%d" % n if n % 2 else None, HEADERS, n % 3, now - n
                    )
                    for n in range(300)
                ]
                places = await producer.send_many(records)
                assert len(set(places)) == 300
                for record, place in zip(records, places, strict=True):
                    assert record.timestamp is not None
                    sent[place] = (record.timestamp, record.key, record.value, record.headers)

        found = await read(real_kafka_any, topic, 3)
    assert {
        RecordMetadata(number, record.offset): record[1:] for number, log in found.items() for record in log
    } == sent


async def test_keys_have_the_same_partitions_as_with_librdkafka(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("keyed", 7)
    keys = [random.Random(1).randbytes(n) for n in range(64)]
    expected = {}
    for key in keys:
        ((partition, _),) = send(real_kafka_any, topic, [{"value": b"", "key": key}], partitioner="murmur2_random")
        expected[key] = partition
    async with Producer(real_kafka_any.bootstrap_servers) as producer:
        places = await producer.send_many([ProducerRecord(topic, b"", key) for key in keys])
    assert {key: place.partition for key, place in zip(keys, places, strict=True)} == expected


async def test_refused_records_fail_without_the_others(real_kafka_any: RealKafka) -> None:
    small = real_kafka_any.create_topic(
        "refusing-large", max_message_bytes=5_000, message_timestamp_after_max_ms=3_600_000
    )
    compacted = real_kafka_any.create_topic("refusing-keyless", cleanup_policy="compact")
    with trio.fail_after(DEADLINE):
        async with Producer(real_kafka_any.bootstrap_servers, Config(bootstrap_timeout=2.0)) as producer:
            values = [b"%03d" % n + b"v" * 1_000 for n in range(40)]
            records = [ProducerRecord(small, value) for value in [*values[:20], b"v" * 6_000, *values[20:]]]
            with pytest.raises(MessageTooLargeError, match=r"max\.message\.bytes"):
                await producer.send_many(records)
            assert await read_values(real_kafka_any, small) == values

            records = [ProducerRecord(compacted, b"%d" % n, None if n == 3 else b"k%d" % n) for n in range(6)]
            with pytest.raises(KafkaError, match=r"cleanup\.policy=compact") as caught:
                await producer.send_many(records)
            assert caught.value.code == ErrorCode.INVALID_RECORD
            assert await read_values(real_kafka_any, compacted) == [b"0", b"1", b"2", b"4", b"5"]

            with pytest.raises(KafkaError) as caught:
                await producer.send(small, b"", timestamp=int((time.time() + 7 * 86_400) * 1000))
            assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
            with pytest.raises(UnknownTopicError, match="create the topic"):
                await producer.send("nowhere", b"")
            await producer.send(small, b"after")
    assert (await read_values(real_kafka_any, small))[-1] == b"after"


async def test_dead_letters_are_readable_by_librdkafka(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("dead", max_message_bytes=2 * 2**20)
    link = Link(
        key=ChainKey("lake", "orders", 3),
        number=7,
        from_offset=100,
        to_offset=200,
        attempt="a" * 32,
        origin=Origin(group="g"),
    )
    letters = [DeadLetter(offset=n, error="it is ä", key=b"k", value=bytes(2**20), headers=HEADERS) for n in range(3)]
    with trio.fail_after(DEADLINE):
        async with TopicDeadLetters(real_kafka_any.bootstrap_servers, topic) as place:
            await place.write(link, letters)
            with pytest.raises(DeadLetterError, match=r"link 7 of lake/orders-3.*max\.message\.bytes"):
                await place.write(link, [DeadLetter(offset=9, error="e", value=random.Random(1).randbytes(3 * 2**20))])
        found = (await read(real_kafka_any, topic, 1))[0]

    assert [(record.key, record.value) for record in found] == [(b"k", bytes(2**20))] * 3
    assert {record.headers[: len(HEADERS)] for record in found} == {HEADERS}
    assert [dict(record.headers)["__sarameya.errors.offset"] for record in found] == [b"0", b"1", b"2"]
    assert dict(found[0].headers)["__sarameya.errors.exception.message"] == "it is ä".encode()
    assert found[0].timestamp > (time.time() - 600) * 1000


# -- faults -----------------------------------------------------------------------------------------


class BreakingTransport:
    """A transport whose connections break at random: halfway through a request, or at its response."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.breaks_so_far = 0

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return _BreakingStream(self, await TcpTransport().connect(host, port))

    def breaks(self, probability: float) -> bool:
        is_broken = self.rng.random() < probability
        self.breaks_so_far += is_broken
        return is_broken


class _BreakingStream(Through):
    def __init__(self, owner: BreakingTransport, stream: trio.abc.Stream) -> None:
        super().__init__(stream)
        self._owner = owner

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._owner.breaks(0.1):
            await self._stream.send_all(data[: len(data) // 2])
            raise trio.BrokenResourceError
        await super().send_all(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await super().receive_some(max_bytes)
        if self._owner.breaks(0.1):
            raise trio.BrokenResourceError
        return data


async def test_broken_connections_lose_and_repeat_no_record(real_kafka_any: RealKafka) -> None:
    topic = real_kafka_any.create_topic("cut")
    transport = BreakingTransport(seed=1)
    values = [b"%d" % n for n in range(300)]
    config = Config(retry_backoff=0.01, retry_backoff_max=0.05)
    with trio.fail_after(DEADLINE):
        async with Producer(real_kafka_any.bootstrap_servers, config, transport=transport) as producer:
            places = [await producer.send(topic, value) for value in values]
        found = await read(real_kafka_any, topic, 1)

    assert transport.breaks_so_far > 50
    assert [record.value for record in found[0]] == values
    assert [place.offset for place in places] == [record.offset for record in found[0]]


@attrs.define
class Senders:
    """Tasks that send consecutive numbers, each to its own partition, until `is_done`."""

    producer: Producer
    topic: str
    sent: dict[int, list[int]] = attrs.field(factory=dict)
    slowest: float = 0.0
    pause: float = 0.0
    """Seconds between two records of a task."""
    is_done: bool = False

    async def run(self, partitions: Iterable[int]) -> None:
        async with trio.open_nursery() as nursery:
            for partition in partitions:
                nursery.start_soon(self._send, partition)

    async def have_sent_on(self, seconds: float) -> None:
        """Wait until each task has sent further records."""
        before = {partition: len(offsets) for partition, offsets in self.sent.items()}
        with trio.fail_after(seconds):
            while any(len(self.sent[partition]) <= count + 1 for partition, count in before.items()):
                await trio.sleep(0.1)

    async def _send(self, partition: int) -> None:
        offsets = self.sent[partition] = []
        while not self.is_done:
            began = trio.current_time()
            place = await self.producer.send(self.topic, b"%d" % len(offsets), partition=partition)
            offsets.append(place.offset)
            self.slowest = max(self.slowest, trio.current_time() - began)
            await trio.sleep(self.pause)


@pytest.mark.parametrize(
    "end", [pytest.param(Node.stop, marks=pytest.mark.exhaustive), Node.kill], ids=["stopped", "killed"]
)
async def test_rolling_restart_loses_and_repeats_no_sent_record(
    real_kafka_of_three: RealKafka, end: Callable[[Node], None]
) -> None:
    kafka = real_kafka_of_three
    topic = kafka.create_topic(f"produced-while-{end.__name__}", 6, min_insync_replicas=2)
    async with Producer(kafka.bootstrap_servers) as producer, trio.open_nursery() as nursery:
        senders = Senders(producer, topic)
        nursery.start_soon(senders.run, range(6))
        for node in kafka.nodes:
            senders.pause = 0.0  # requests are always in flight when a broker ends
            await trio.sleep(1)
            await trio.to_thread.run_sync(end, node)
            await senders.have_sent_on(ENDED_SECONDS)
            senders.pause = 0.05  # a starting broker needs most of the machine
            await trio.to_thread.run_sync(node.start)
            await trio.to_thread.run_sync(await_all_in_sync, kafka)
        senders.is_done = True

    found = await read(kafka, topic, 6)
    count = sum(map(len, found.values()))
    print(f"{count} records, the slowest took {senders.slowest:.1f} s")
    for number, log in found.items():
        assert [record.value for record in log] == [b"%d" % n for n in range(len(log))]
        assert [record.offset for record in log] == senders.sent[number]
