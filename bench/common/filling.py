"""Fills a topic with librdkafka, each partition with the same number of messages, and checks its log ends."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence

import attrs
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.common.events import event
from tests.integration.real_kafka import RealKafka

BATCH_BYTES = 2**16
"""Maximum size of a record batch, before compression."""

KEY_BYTES = 12
"""Size of each key."""

_KEYS = tuple(b"customer%04d" % number for number in range(1000))
_DISTINCT_VALUES = 2**15
"""Number of distinct values before they repeat: many more than a batch has, so that no codec sees one twice."""
_FLUSH_SECONDS = 120
_ANSWER_SECONDS = 20


class FillingError(Exception):
    """A topic was not filled, or offsets were not committed; the text says why."""


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
    """A filled topic.

    Attributes:
        topic: Name of the topic.
        ends: Log end offset of each partition.
        log_bytes: Size of its logs on the broker's disk, where record batches are stored as they were sent.
    """

    topic: str
    ends: tuple[int, ...]
    log_bytes: int


def fill(kafka: RealKafka, topic: str, contents: Contents) -> Filled:
    """Create a topic and fill it.

    Raises:
        FillingError: Not all messages are in the topic.
    """
    kafka.create_topic(topic, contents.partitions)
    _send(kafka, topic, contents)
    ends = tuple(_ends(kafka, topic, contents.partitions))
    wanted = tuple(
        len(range(partition, contents.messages, contents.partitions)) for partition in range(contents.partitions)
    )
    if ends != wanted:
        raise FillingError(f"{topic} has log ends {ends}, not {wanted}")
    os.sync()  # otherwise the disk is still busy with writes while the first contenders read
    logs = (kafka.nodes[0].directory / "data").glob(f"{topic}-[0-9]*/*.log")
    return Filled(topic, ends, sum(log.stat().st_size for log in logs))


def values(kind: str, size: int, count: int) -> Iterator[bytes]:
    """Yield values, the same ones in each run.

    Args:
        kind: "random" does not compress; "compressible" is text; "events" are those of `bench.common.events`.
        size: Bytes of each value.
        count: Number of values.
    """
    generator = random.Random(size)
    make = _MAKERS[kind]
    for number in range(count):
        yield make(generator, number, size)


def pool(contents: Contents) -> list[bytes]:
    """Return the distinct values of the messages.

    Message n of the topic is in partition n % partitions, and has value n % len(pool).
    """
    return list(values(contents.values, contents.size, min(contents.messages, _DISTINCT_VALUES)))


def commit(kafka: RealKafka, group: str, topic: str, offsets: Sequence[tuple[int, int]]) -> None:
    """Commit these (partition, offset) for a group without members. Its members will start there.

    Raises:
        FillingError: The coordinator refuses an offset.
    """
    consumer = Consumer({"bootstrap.servers": ",".join(kafka.bootstrap_servers), "group.id": group})
    partitions = [TopicPartition(topic, partition, offset) for partition, offset in offsets]
    for committed in consumer.commit(offsets=partitions, asynchronous=False) or ():
        if committed.error is not None:
            raise FillingError(f"{group} could not commit {committed}: {committed.error}")
    consumer.close()


def _text_value(generator: random.Random, number: int, size: int) -> bytes:
    """Return an event as services log it: JSON with repeated names and varying numbers, cut to the size."""
    text = f'{{"id":"{generator.getrandbits(64):016x}","sequence":{number}'
    while len(text) < size:
        text += (
            f',"sensor":"sensor-{generator.randrange(500):04d}","status":"{generator.choice(("ok", "ok", "late"))}"'
            f',"temperature":{generator.gauss(20, 5):.2f},"pressure":{generator.gauss(1013, 8):.1f}'
        )
    return text[: size - 1].encode() + b"}"


_MAKERS: dict[str, Callable[[random.Random, int, int], bytes]] = {
    "random": lambda generator, _, size: generator.randbytes(size),
    "compressible": _text_value,
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
        while not _produce(producer, topic, key, value, number % contents.partitions):
            producer.poll(0.05)
    if left := producer.flush(_FLUSH_SECONDS):
        raise FillingError(f"{left} messages for {topic} were not sent within {_FLUSH_SECONDS} s")


def _produce(producer: Producer, topic: str, key: bytes | None, value: bytes, partition: int) -> bool:
    """Pass a message to the producer. Return False if its queue is full."""
    try:
        producer.produce(topic, value, key, partition=partition)
    except BufferError:
        return False
    return True


def _ends(kafka: RealKafka, topic: str, partitions: int) -> Iterator[int]:
    """Yield the log end offset of each partition."""
    consumer = Consumer({"bootstrap.servers": ",".join(kafka.bootstrap_servers), "group.id": "filling"})
    for partition in range(partitions):
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), _ANSWER_SECONDS)
        yield end
    consumer.close()
