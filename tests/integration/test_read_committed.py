"""Transactions of Apache Kafka's other clients, read by ours and by librdkafka: the same, and what was written.

Several producers write into the same partitions by turns, each with a codec of its own, and commit or abort; some
transactions are still open at the end, with ended ones behind their beginnings. What is to be read is known from the
producers themselves, where these tell it.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping

import attrs
import pytest
import trio
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from confluent_kafka.admin import OffsetSpec

from sarameya import Claim, Config, Consumer, ConsumerGroup, Message, Session, Stream, StreamHandler
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import produce
from tests.integration.real_kafka.transactions import Record, Writer, Written, copy_by_java

pytestmark = pytest.mark.integration

DEADLINE = 60.0
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
MIXED = (0, 1, 2)
"""Partitions that all write to."""
ABORTED, EMPTY = 3, 4
PARTITIONS = 5
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
LEVELS = ("read_committed", "read_uncommitted")

Records = dict[int, list[Record]]


@attrs.frozen
class End:
    """Where reading has come to: the next offset, and where the log ends for this level and for all."""

    position: int
    stable: int
    high: int


@attrs.frozen
class WasRead:
    records: Records
    ends: dict[int, End]


# -- what is written ------------------------------------------------------------------------------------


def write(kafka: RealKafka, topic: str, rng: random.Random) -> tuple[Written, list[Writer]]:
    """Fill the topic; what there is then, and whose transactions are still open."""
    written = Written()
    writers = [Writer(kafka, topic, written, codec, f"{topic}-{codec}") for codec in CODECS]
    plain = Writer(kafka, topic, written, "lz4")
    aborting = Writer(kafka, topic, written, "zstd", f"{topic}-aborting")

    def batch() -> list[tuple[bytes | None, bytes | None]]:
        return [(rng.randbytes(4), bytes([n]) * rng.randrange(200)) for n in range(rng.randrange(1, 30))]

    for _ in range(60):
        writer = rng.choice([*writers, plain])
        writer.write(rng.choice(MIXED), batch())
        if writer.is_open and rng.random() < 0.4:
            writer.end(commits=rng.random() < 0.5)
    for n in range(4):
        aborting.write(ABORTED, batch())
        aborting.write(MIXED[2] if n else MIXED[1], batch())
        aborting.end(commits=False)
    for writer in writers:
        if writer.is_open:
            writer.end(commits=True)

    left_open = writers[:2]
    for writer in left_open:
        writer.write(MIXED[0], batch())
    for writer in (writers[2], plain, aborting):
        writer.write(MIXED[0], batch())
        if writer.is_open:
            writer.end(commits=writer is not aborting)
    return written, left_open


@attrs.frozen
class LogEnds:
    """Where each log ends for consumers of either level."""

    stable: dict[int, int]
    high: dict[int, int]

    @classmethod
    def of(cls, kafka: RealKafka, topic: str) -> LogEnds:
        admin = kafka.admin()
        asked = {LibrdkafkaPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
        found = (admin.list_offsets(asked, isolation_level=level) for level in (COMMITTED, UNCOMMITTED))
        return cls(*({p.partition: f.result(DEADLINE).offset for p, f in ends.items()} for ends in found))


# -- how it is read -------------------------------------------------------------------------------------


def by_librdkafka(kafka: RealKafka, topic: str, level: str, ends: LogEnds) -> WasRead:
    """All that another client reads, until it says of each partition that this was all."""
    settings = {"group.id": "none", "isolation.level": level, "enable.partition.eof": True, "log_level": 0}
    consumer = LibrdkafkaConsumer({"bootstrap.servers": ",".join(kafka.bootstrap_servers), **settings})
    consumer.assign([LibrdkafkaPartition(topic, number, 0) for number in range(PARTITIONS)])
    records: Records = {number: [] for number in range(PARTITIONS)}
    positions: dict[int, int] = {}
    while len(positions) < PARTITIONS:
        for message in consumer.consume(1000, timeout=0.1):
            error = message.error()
            if error is None:
                record = Record(message.offset(), message.timestamp()[1], message.key(), message.value())
                records[message.partition()].append(record)
            elif error.code() == KafkaError._PARTITION_EOF:
                positions[message.partition()] = message.offset()
            else:
                raise KafkaException(error)
    consumer.close()
    return WasRead(records, {n: End(positions[n], ends.stable[n], ends.high[n]) for n in records})


Read = Callable[[Claim, list[Record]], Awaitable[None]]


async def messages(claim: Claim, records: list[Record]) -> None:
    async for message in claim:
        records.append(recorded(message))  # noqa: PERF401  (what was read until this is cancelled)


async def batches(claim: Claim, records: list[Record]) -> None:
    async for batch in claim.batches():
        table = batch.to_arrow()
        columns = [table.column(name).to_pylist() for name in ("offset", "key", "value")]
        times = [message.timestamp for message in batch]
        records += [Record(o, t, k, v) for o, k, v, t in zip(*columns, times, strict=True)]


def recorded(message: Message) -> Record:
    return Record(message.offset, message.timestamp, message.key, message.value)


async def by_claims(kafka: RealKafka, topic: str, config: Config, read: Read) -> WasRead:
    """All that we read of single partitions, until no lag is left."""
    records: Records = {number: [] for number in range(PARTITIONS)}
    async with Consumer(kafka.bootstrap_servers, config) as consumer:
        partitions = await consumer.topic_partitions(topic)
        async with consumer.consume_partitions(partitions) as claims, trio.open_nursery() as nursery:
            for partition, claim in claims.items():
                nursery.start_soon(read, claim, records[partition.partition])
            ends = await ends_reached(claims.values())
            nursery.cancel_scope.cancel()
    return WasRead(records, ends)


async def ends_reached(claims: Collection[Claim]) -> dict[int, End]:
    """Wait until none of these lags, and say where they are."""
    while any(claim.lag != 0 for claim in claims):
        await trio.sleep(0.01)
    return {c.partition: End(c.position, c.last_stable_offset, c.high_water_mark) for c in claims}


class Merging(StreamHandler):
    """Keeps what its one stream brings."""

    def __init__(self) -> None:
        self.records: Records = {number: [] for number in range(PARTITIONS)}
        self.stream: Stream | None = None

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        self.stream = stream
        async for message in stream:
            self.records[message.partition].append(recorded(message))


async def by_a_stream(kafka: RealKafka, topic: str, config: Config) -> WasRead:
    """All that a member reads as one feed, until no lag is left."""
    handler = Merging()
    group = ConsumerGroup(kafka.bootstrap_servers, f"{topic}-{config.isolation_level}", config)
    async with group, trio.open_nursery() as nursery:
        nursery.start_soon(group.consume, [topic], handler)
        while handler.stream is None or len(handler.stream.claims) < PARTITIONS:
            await trio.sleep(0.01)
        ends = await ends_reached(handler.stream.claims.values())
        group.close_nowait()
    return WasRead(handler.records, ends)


async def check_all_read(kafka: RealKafka, topic: str, expected: Mapping[str, WasRead]) -> None:
    """Read all there is in every way, and compare it with what was read under each isolation level."""
    for level, theirs in expected.items():
        config = Config(offset_initial="oldest", isolation_level=level, fetch_max_wait=0.05)
        # So small that transactions begin in one answer and end in another.
        small = attrs.evolve(config, fetch_max_partition_bytes=1000)
        assert await by_claims(kafka, topic, config, messages) == theirs
        assert await by_claims(kafka, topic, small, messages) == theirs
        assert await by_claims(kafka, topic, config, batches) == theirs
        assert await by_a_stream(kafka, topic, config) == theirs


# -- the tests ------------------------------------------------------------------------------------------


async def test_transactions_are_read_as_librdkafka_reads_them_and_as_they_ended(real_kafka_any: RealKafka) -> None:
    kafka = real_kafka_any
    topic = kafka.create_topic("transactions", PARTITIONS)
    written, left_open = await trio.to_thread.run_sync(write, kafka, topic, random.Random(5))
    ends = LogEnds.of(kafka, topic)
    assert ends.stable[0] < ends.high[0], "something is to be open"
    read = {level: by_librdkafka(kafka, topic, level, ends) for level in LEVELS}
    assert read["read_uncommitted"].records == written.of("read_uncommitted", PARTITIONS)
    shown = written.of("read_committed", PARTITIONS)
    assert shown[ABORTED] == shown[EMPTY] == []
    before, behind = (
        [record for record in shown[0] if (record.offset < ends.stable[0]) is is_before] for is_before in (True, False)
    )
    assert behind
    assert read["read_committed"].records == shown | {0: before}
    with trio.fail_after(DEADLINE):
        await check_all_read(kafka, topic, read)

    left_open[0].end(commits=True)
    left_open[1].end(commits=False)
    ends = LogEnds.of(kafka, topic)
    assert ends.stable == ends.high
    read = {level: by_librdkafka(kafka, topic, level, ends) for level in LEVELS}
    assert read["read_committed"].records == written.of("read_committed", PARTITIONS)
    assert len(read["read_committed"].records[0]) > len(before) + len(behind)
    with trio.fail_after(DEADLINE):
        await check_all_read(kafka, topic, read)


async def test_transactions_of_java_are_read_as_librdkafka_reads_them(real_kafka_any: RealKafka) -> None:
    kafka = real_kafka_any
    values = [b"value %d" % n for n in range(400)]
    source, topic = kafka.create_topic("copied"), kafka.create_topic("copies", PARTITIONS)
    produce(kafka, source, values, key=b"key")
    assert await trio.to_thread.run_sync(copy_by_java, kafka, source, 0, topic, 10) == len(values)

    ends = LogEnds.of(kafka, topic)
    read = {level: by_librdkafka(kafka, topic, level, ends) for level in LEVELS}
    assert [record.value for record in read["read_committed"].records[0]] == values
    assert len(read["read_uncommitted"].records[0]) > len(values), "something is to be aborted"
    with trio.fail_after(DEADLINE):
        await check_all_read(kafka, topic, read)
