"""Logs of Kafka 4.1 and 3.9 with gaps and unusual records: Sarameya and librdkafka read the same.

A compacted log has gaps between its offsets, tombstones, and record batches of which only the header is left.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from sarameya import Config, Consumer
from tests.integration.log_comparison import LEVELS, UNCOMMITTED, LogEnds, by_librdkafka, check_all_read
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import send

pytestmark = pytest.mark.integration

DEADLINE = 60.0
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
KEYS = [b"key %d" % n for n in range(10)]
COMPACTED = {
    "cleanup_policy": "compact",
    "segment_ms": 100,
    "min_cleanable_dirty_ratio": 0.0,
}

_BATCH = struct.Struct(">qi45xi")
"""Header of a record batch: its base offset, the size of what follows, and the number of its records."""
_SIZE_ENDS = 12


def fill(kafka: RealKafka, topic: str) -> dict[bytes, bytes | None]:
    """Overwrite some keys a few times. Return the keys and values that compaction must keep."""
    rounds: list[dict[bytes, bytes | None]] = [dict.fromkeys(KEYS, b"overwritten %d" % n) for n in range(2)]
    rounds += [dict.fromkeys(KEYS, b"kept"), dict.fromkeys(KEYS[::3]), dict.fromkeys(KEYS[::4], b"written last")]
    for values in rounds:
        # Kafka keeps each producer's last batch, even without records: it holds the producer's sequence numbers.
        records = [{"key": key, "value": value, "partition": 0} for key, value in values.items()]
        send(kafka, topic, records, enable_idempotence=True, batch_num_messages=3)
    return {key: value for values in rounds for key, value in values.items()}


def batches_of(kafka: RealKafka, topic: str) -> list[tuple[int, int]]:
    """Return base offset and number of records of each record batch in the files of the topic's only partition."""
    [node] = kafka.nodes
    files = sorted((node.directory / "data" / f"{topic}-0").glob("*.log"))
    return [batch for file in files for batch in _headers(file.read_bytes())]


def _headers(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at + _BATCH.size <= len(data):
        offset, size, records = _BATCH.unpack_from(data, at)
        yield offset, records
        at += _SIZE_ENDS + size


async def test_compacted_log_is_read_across_its_gaps(real_kafka_any: RealKafka) -> None:
    kafka = real_kafka_any
    topic = kafka.create_topic("compacted", **COMPACTED)
    kept = fill(kafka, topic) | {b"end": b"end"}
    with trio.fail_after(DEADLINE):
        await trio.sleep(0.2)  # the segment must be old enough to be rolled
        send(kafka, topic, [{"key": b"end", "value": b"end"}])
        while sum(records for _, records in batches_of(kafka, topic)) > len(kept):
            await trio.sleep(0.05)
    sizes = dict(batches_of(kafka, topic))
    assert 0 in sizes.values(), "a batch must be empty"
    assert 0 not in sizes, "the first batch must be deleted"
    assert None in kept.values(), "a tombstone must be left"
    ends = LogEnds.of(kafka, topic, 1)
    read = {level: by_librdkafka(kafka, topic, level, ends) for level in LEVELS}
    records = read[UNCOMMITTED].records[0]
    assert {record.key: record.value for record in records} == kept
    await check_all_read(kafka, topic, read)

    with trio.fail_after(DEADLINE):
        async with Consumer(kafka.bootstrap_servers, Config(fetch_max_wait=0.01)) as consumer:
            for start in range(ends.high[0]):
                async with consumer.consume_partition(topic, 0, start) as claim:
                    first = await anext(aiter(claim))
                assert first.offset == next(record.offset for record in records if record.offset >= start)
            async with consumer.consume_partition(topic, 0, "oldest") as claim:
                position, batches = 0, claim.batches()
                while position < ends.high[0]:
                    batch = await anext(batches)
                    assert position <= batch.messages[0].offset <= batch.messages[-1].offset < batch.next_offset
                    position = batch.next_offset
                assert position == ends.high[0]


async def test_records_of_every_kind_are_read_unchanged(real_kafka_any: RealKafka) -> None:
    kafka = real_kafka_any
    topic = kafka.create_topic("odd", retention_ms=-1)
    repeated = [("a", b"1"), ("b", None), ("a", b"2"), ("a", b"1"), ("", b""), ("ключ", b"\xff\x00")]
    sent: list[dict[str, Any]] = [
        {"key": None, "value": None},
        {"key": b"", "value": b""},
        {"key": b"tombstone", "value": None},
        {"key": b"\xff\xfe\x00", "value": bytes(range(256))},
        {"key": None, "value": b"\xc3\x28", "headers": repeated},
        {"key": b"many", "value": b"headers", "headers": [(f"name {n}", os.urandom(n % 50)) for n in range(2000)]},
        {"key": b"old", "value": b"1970", "timestamp": 1},
        {"key": b"large", "value": os.urandom(900_000)},
    ]
    for codec in CODECS:
        send(kafka, topic, sent, compression_type=codec)
    ends = LogEnds.of(kafka, topic, 1)
    read = {level: by_librdkafka(kafka, topic, level, ends) for level in LEVELS}
    records = read[UNCOMMITTED].records[0]
    assert [(r.key, r.value, list(r.headers)) for r in records] == [
        (record["key"], record["value"], record.get("headers", [])) for record in sent * len(CODECS)
    ]
    assert [r.timestamp for r in records if r.key == b"old"] == [1] * len(CODECS)
    await check_all_read(kafka, topic, read)
