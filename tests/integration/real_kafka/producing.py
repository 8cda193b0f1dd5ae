"""librdkafka as the producer of records that tests consume, so that the bytes come from another implementation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from confluent_kafka import KafkaError, Producer

from tests.integration.real_kafka.cluster import RealKafka

_FLUSH_SECONDS = 30


class Record(NamedTuple):
    """A record of one partition, as any client reports it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @classmethod
    def of(cls, message: Any) -> Self:
        """Return the record of a librdkafka message, sent or read."""
        headers = tuple(message.headers() or ())
        return cls(message.offset(), message.timestamp()[1], message.key(), message.value(), headers)


def produce(
    kafka: RealKafka,
    topic: str,
    values: Iterable[bytes | None],
    *,
    key: bytes | None = None,
    headers: list[tuple[str, str | bytes | None]] | None = None,
    **options: Any,
) -> set[tuple[int, int]]:
    """Send values as `send` does, all with the same key and headers; without a key they spread over the partitions."""
    return send(kafka, topic, ({"value": value, "key": key, "headers": headers} for value in values), **options)


def send(kafka: RealKafka, topic: str, records: Iterable[Mapping[str, Any]], **options: Any) -> set[tuple[int, int]]:
    """Send records, and return the (partition, offset) of each.

    Args:
        kafka: the cluster.
        topic: the topic of all records.
        records: keyword arguments of `Producer.produce`, for each record.
        options: librdkafka's options, with underscores for dots.

    Raises:
        RuntimeError: a delivery failed, or did not end in time.
    """
    settings = {name.replace("_", "."): value for name, value in options.items()}
    producer = Producer(
        {
            "bootstrap.servers": ",".join(kafka.bootstrap_servers),
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
            **settings,
        }
    )
    delivered: set[tuple[int, int]] = set()
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            failures.append(error)
        else:
            delivered.add((message.partition(), message.offset()))

    for record in records:
        producer.produce(topic, **record, on_delivery=on_delivery)
        producer.poll(0)
    unsent = producer.flush(_FLUSH_SECONDS)
    if failures or unsent:
        raise RuntimeError(f"{unsent} records were not sent, {len(failures)} failed: {failures[:1]}")
    return delivered


def produce_transaction(kafka: RealKafka, topic: str, value: bytes, *, commit: bool) -> None:
    """Produce one record in a transaction of its own, and commit or abort it once the record is in the log."""
    producer = Producer({"bootstrap.servers": ",".join(kafka.bootstrap_servers), "transactional.id": f"{topic}-tx"})
    producer.init_transactions(_FLUSH_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, value)
    producer.flush(_FLUSH_SECONDS)
    if commit:
        producer.commit_transaction(_FLUSH_SECONDS)
    else:
        producer.abort_transaction(_FLUSH_SECONDS)
