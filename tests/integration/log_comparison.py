"""Whole logs, read by sarameya in each of its ways and by librdkafka: the records and log ends must be equal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Self

import attrs
import trio
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from confluent_kafka.admin import OffsetSpec

from sarameya import Claim, Config, Consumer, ConsumerGroup, Message, Session, Stream, StreamHandler
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import Record

COMMITTED, UNCOMMITTED = LEVELS = ("read_committed", "read_uncommitted")

_SECONDS = 60.0

Records = dict[int, list[Record]]


@attrs.frozen
class End:
    """The position of a reader, and the log end for committed and for all records."""

    position: int
    stable: int
    high: int


@attrs.frozen
class WasRead:
    """Records that a client has read, by partition, and where it stands in each."""

    records: Records
    ends: dict[int, End]


@attrs.frozen
class LogEnds:
    """Log ends by partition: `stable` for committed records only, `high` for all records."""

    stable: dict[int, int]
    high: dict[int, int]

    @classmethod
    def of(cls, kafka: RealKafka, topic: str, partitions: int) -> Self:
        admin = kafka.admin()
        requests = {LibrdkafkaPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        levels = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        found = (admin.list_offsets(requests, isolation_level=level) for level in levels)
        return cls(*({p.partition: f.result(_SECONDS).offset for p, f in ends.items()} for ends in found))


def by_librdkafka(kafka: RealKafka, topic: str, level: str, ends: LogEnds) -> WasRead:
    """Read a topic with librdkafka until it reports the end of each partition."""
    settings = {"group.id": "none", "isolation.level": level, "enable.partition.eof": True, "log_level": 0}
    consumer = LibrdkafkaConsumer({"bootstrap.servers": ",".join(kafka.bootstrap_servers), **settings})
    consumer.assign([LibrdkafkaPartition(topic, number, 0) for number in ends.high])
    records: Records = {number: [] for number in ends.high}
    positions: dict[int, int] = {}
    while positions.keys() != records.keys():
        for message in consumer.consume(1000, timeout=0.1):
            error = message.error()
            if error is None:
                records[message.partition()].append(Record.of(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                positions[message.partition()] = message.offset()
            else:
                raise KafkaException(error)
    consumer.close()
    return WasRead(records, {n: End(positions[n], ends.stable[n], ends.high[n]) for n in records})


Read = Callable[[Claim, list[Record]], Awaitable[None]]


async def messages(claim: Claim, records: list[Record]) -> None:
    async for message in claim:
        records.append(recorded(message))  # noqa: PERF401  (a cancelled comprehension would lose the messages)


async def batches(claim: Claim, records: list[Record]) -> None:
    async for batch in claim.batches():
        table = batch.to_arrow()
        assert table.num_rows == len(batch)
        for row, message in zip(table.to_pylist(), batch, strict=True):
            headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
            records.append(Record(row["offset"], message.timestamp, row["key"], row["value"], headers))


def recorded(message: Message) -> Record:
    return Record(message.offset, message.timestamp, message.key, message.value, message.headers)


async def by_claims(kafka: RealKafka, topic: str, config: Config, read: Read) -> WasRead:
    """Read a topic with a claim for each partition, until no claim lags."""
    async with Consumer(kafka.bootstrap_servers, config) as consumer:
        partitions = await consumer.topic_partitions(topic)
        records: Records = {partition.partition: [] for partition in partitions}
        async with consumer.consume_partitions(partitions) as claims, trio.open_nursery() as nursery:
            for partition, claim in claims.items():
                nursery.start_soon(read, claim, records[partition.partition])
            ends = await ends_reached(claims.values())
            nursery.cancel_scope.cancel()
    return WasRead(records, ends)


async def ends_reached(claims: Collection[Claim]) -> dict[int, End]:
    """Wait until no claim lags, and return their positions and log ends."""
    while any(claim.lag != 0 for claim in claims):
        await trio.sleep(0.01)
    return {c.partition: End(c.position, c.last_stable_offset, c.high_water_mark) for c in claims}


class StreamRecorder(StreamHandler):
    """Keeps the messages of its one stream."""

    def __init__(self) -> None:
        self.records: Records = {}
        self.stream: Stream | None = None

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        self.stream = stream
        async for message in stream:
            self.records.setdefault(message.partition, []).append(recorded(message))


async def by_a_stream(kafka: RealKafka, topic: str, config: Config, partitions: int) -> WasRead:
    """Read a topic with a group's member as one stream, until no claim lags."""
    handler = StreamRecorder()
    group = ConsumerGroup(kafka.bootstrap_servers, f"{topic}-{config.isolation_level}", config)
    async with group, trio.open_nursery() as nursery:
        nursery.start_soon(group.consume, [topic], handler)
        while handler.stream is None or len(handler.stream.claims) < partitions:
            await trio.sleep(0.01)
        ends = await ends_reached(handler.stream.claims.values())
        group.close_nowait()
    return WasRead({number: handler.records.get(number, []) for number in range(partitions)}, ends)


async def check_all_read(kafka: RealKafka, topic: str, expected: Mapping[str, WasRead]) -> None:
    """Read the topic in every way under each isolation level, and compare the results with `expected`."""
    with trio.fail_after(_SECONDS):
        for level, wanted in expected.items():
            config = Config(offset_initial="oldest", isolation_level=level, fetch_max_wait=0.05)
            # So small that a response ends within a record batch or a transaction.
            small = attrs.evolve(config, fetch_max_partition_bytes=1000)
            assert await by_claims(kafka, topic, config, messages) == wanted
            assert await by_claims(kafka, topic, small, messages) == wanted
            assert await by_claims(kafka, topic, config, batches) == wanted
            assert await by_claims(kafka, topic, small, batches) == wanted
            assert await by_a_stream(kafka, topic, config, len(wanted.records)) == wanted
