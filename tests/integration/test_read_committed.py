"""Transactions of Apache Kafka's other clients: Sarameya and librdkafka read the same records.

Several producers write into the same partitions in turn, each with its own codec, and commit or abort. Some
transactions are still open at the end, with completed ones behind their first records. The producers report the
expected records where they can.
"""

from __future__ import annotations

import random

import pytest
import trio

from tests.integration.log_comparison import COMMITTED, LEVELS, UNCOMMITTED, LogEnds, by_librdkafka, check_all_read
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import produce
from tests.integration.real_kafka.transactions import Writer, Written, copy_by_java

pytestmark = pytest.mark.integration

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
MIXED = (0, 1, 2)
"""Partitions that all producers write to."""
ABORTED, EMPTY = 3, 4
PARTITIONS = 5


def write(kafka: RealKafka, topic: str, rng: random.Random) -> tuple[Written, list[Writer]]:
    """Fill the topic. Return the written records, and the writers with an open transaction."""
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

    open_writers = writers[:2]
    for writer in open_writers:
        writer.write(MIXED[0], batch())
    for writer in (writers[2], plain, aborting):
        writer.write(MIXED[0], batch())
        if writer.is_open:
            writer.end(commits=writer is not aborting)
    return written, open_writers


async def test_transactions_are_read_as_librdkafka_does(real_kafka_any: RealKafka) -> None:
    kafka = real_kafka_any
    topic = kafka.create_topic("transactions", PARTITIONS)
    written, open_writers = await trio.to_thread.run_sync(write, kafka, topic, random.Random(5))
    ends = LogEnds.of(kafka, topic, PARTITIONS)
    assert ends.stable[0] < ends.high[0], "a transaction must be open"
    read = {level: by_librdkafka(kafka, topic, level, ends) for level in LEVELS}
    assert read[UNCOMMITTED].records == written.of(UNCOMMITTED, PARTITIONS)
    shown = written.of(COMMITTED, PARTITIONS)
    assert shown[ABORTED] == shown[EMPTY] == []
    before, behind = (
        [record for record in shown[0] if (record.offset < ends.stable[0]) is is_before] for is_before in (True, False)
    )
    assert behind
    assert read[COMMITTED].records == shown | {0: before}
    await check_all_read(kafka, topic, read)

    open_writers[0].end(commits=True)
    open_writers[1].end(commits=False)
    ends = LogEnds.of(kafka, topic, PARTITIONS)
    assert ends.stable == ends.high
    read = {level: by_librdkafka(kafka, topic, level, ends) for level in LEVELS}
    assert read[COMMITTED].records == written.of(COMMITTED, PARTITIONS)
    assert len(read[COMMITTED].records[0]) > len(before) + len(behind)
    await check_all_read(kafka, topic, read)


async def test_java_transactions_are_read_as_librdkafka_does(real_kafka_any: RealKafka) -> None:
    kafka = real_kafka_any
    values = [b"value %d" % n for n in range(400)]
    source, topic = kafka.create_topic("copied"), kafka.create_topic("copies", PARTITIONS)
    produce(kafka, source, values, key=b"key")
    assert await trio.to_thread.run_sync(copy_by_java, kafka, source, 0, topic, 10) == len(values)

    ends = LogEnds.of(kafka, topic, PARTITIONS)
    read = {level: by_librdkafka(kafka, topic, level, ends) for level in LEVELS}
    assert [record.value for record in read[COMMITTED].records[0]] == values
    assert len(read[UNCOMMITTED].records[0]) > len(values), "a transaction must be aborted"
    await check_all_read(kafka, topic, read)
