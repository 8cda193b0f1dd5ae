"""A topic is filled: by librdkafka, the same number to each partition, and looked at whether all of it is there."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence

import attrs
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.common.events import event
from tests.integration.real_kafka import RealKafka

BATCH_BYTES = 2**16
"""Of a record batch, before it is compressed."""

KEY_BYTES = 12
"""Size of each key."""

_KEYS = tuple(b"customer%04d" % number for number in range(1000))
_DIFFERENT = 2**15
"""How many values there are before they come again: many more than a batch has, so that no codec sees one twice."""
_FLUSH_SECONDS = 120
_ANSWER_SECONDS = 20


class FillingError(Exception):
    """A topic does not have what was sent to it; the text says what it has."""


@attrs.frozen
class Contents:
    """Contents of a topic to be filled.

    Attributes:
        messages: Number of messages.
        size: Bytes of each value.
        partitions: Number of partitions; each gets the same number of messages.
        codec: Compression codec of the record batches.
        values: Kind of values (see `values`).
        has_keys: Messages have keys of `KEY_BYTES`; otherwise none.
    """

    messages: int
    size: int
    partitions: int
    codec: str = "none"
    values: str = "random"
    has_keys: bool = False


@attrs.frozen
class Filled:
    """A topic, full."""

    topic: str
    ends: tuple[int, ...]
    log_bytes: int
    """What its logs take on the broker's disk, record batches as they travel."""


def fill(kafka: RealKafka, topic: str, contents: Contents) -> Filled:
    """Create and fill the topic. Raises FillingError."""
    kafka.create_topic(topic, contents.partitions)
    _send(kafka, topic, contents)
    ends = tuple(_ends(kafka, topic, contents.partitions))
    wanted = tuple(
        len(range(partition, contents.messages, contents.partitions)) for partition in range(contents.partitions)
    )
    if ends != wanted:
        raise FillingError(f"{topic} has ends {ends}, not {wanted}")
    os.sync()  # or else the disk is written to while the first contenders read
    logs = (kafka.nodes[0].directory / "data").glob(f"{topic}-[0-9]*/*.log")
    return Filled(topic, ends, sum(log.stat().st_size for log in logs))


def values(kind: str, size: int, count: int) -> Iterator[bytes]:
    """`count` values of `size` bytes: "random", which nothing compresses, "compressible", which is text, or "events",
    which are JSON as `bench.common.events` has it.
    """
    generator = random.Random(size)
    make = _MAKERS[kind]
    for number in range(count):
        yield make(generator, number, size)


def pool(contents: Contents) -> list[bytes]:
    """The values that the messages have, in turn: message n of all, which is in partition n % partitions, has number
    n % len of these."""
    return list(values(contents.values, contents.size, min(contents.messages, _DIFFERENT)))


def commit(kafka: RealKafka, group: str, topic: str, offsets: Sequence[tuple[int, int]]) -> None:
    """Let a group without members have committed these (partition, offset): where its members will begin."""
    consumer = Consumer({"bootstrap.servers": ",".join(kafka.bootstrap_servers), "group.id": group})
    partitions = [TopicPartition(topic, partition, offset) for partition, offset in offsets]
    for committed in consumer.commit(offsets=partitions, asynchronous=False) or ():
        if committed.error is not None:
            raise FillingError(f"{group} could not commit {committed}: {committed.error}")
    consumer.close()


def _event(generator: random.Random, number: int, size: int) -> bytes:
    """An event as services log them: JSON, names again and again, numbers that differ; cut to the size."""
    text = f'{{"id":"{generator.getrandbits(64):016x}","sequence":{number}'
    while len(text) < size:
        text += (
            f',"sensor":"sensor-{generator.randrange(500):04d}","status":"{generator.choice(("ok", "ok", "late"))}"'
            f',"temperature":{generator.gauss(20, 5):.2f},"pressure":{generator.gauss(1013, 8):.1f}'
        )
    return text[: size - 1].encode() + b"}"


_MAKERS: dict[str, Callable[[random.Random, int, int], bytes]] = {
    "random": lambda generator, _, size: generator.randbytes(size),
    "compressible": _event,
    "events": event,
}


def _send(kafka: RealKafka, topic: str, contents: Contents) -> None:
    producer = Producer(
        {
            "bootstrap.servers": ",".join(kafka.bootstrap_servers),
            "compression.codec": contents.codec,
            "batch.size": BATCH_BYTES,
            "linger.ms": 100,
            "queue.buffering.max.messages": 500_000,
        }
    )
    all_values = pool(contents)
    for number in range(contents.messages):
        value = all_values[number % len(all_values)]
        key = _KEYS[number % len(_KEYS)] if contents.has_keys else None
        while not _produced(producer, topic, key, value, number % contents.partitions):
            producer.poll(0.05)
    if left := producer.flush(_FLUSH_SECONDS):
        raise FillingError(f"{left} messages for {topic} were not sent within {_FLUSH_SECONDS} s")


def _produced(producer: Producer, topic: str, key: bytes | None, value: bytes, partition: int) -> bool:
    try:
        producer.produce(topic, value, key, partition=partition)
    except BufferError:  # its queue is full
        return False
    return True


def _ends(kafka: RealKafka, topic: str, partitions: int) -> Iterator[int]:
    consumer = Consumer({"bootstrap.servers": ",".join(kafka.bootstrap_servers), "group.id": "filling"})
    for partition in range(partitions):
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), _ANSWER_SECONDS)
        yield end
    consumer.close()
