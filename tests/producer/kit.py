"""Helpers of the producer tests: a producer over a cluster in memory, and the contents of its logs."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio

from sarameya import Config, Event, Message, Producer, RecordMetadata, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.protocol.records.batch_codec import decode, split
from sarameya.testing import virtual_wall_clock

E = TypeVar("E")


@attrs.define
class RecordedProducer:
    """A producer, its events, and the outcome of each record that it sent, by value."""

    producer: Producer
    cluster: EmbeddedCluster
    events: list[Event] = attrs.field(factory=list)
    places: dict[bytes, RecordMetadata] = attrs.field(factory=dict)
    errors: dict[bytes, Exception] = attrs.field(factory=dict)

    def seen(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def send(self, value: bytes, partition: int = 0, topic: str = "orders") -> None:
        """Send a record, and keep its metadata or its error."""
        try:
            self.places[value] = await self.producer.send(topic, value, partition=partition)
        except Exception as error:
            self.errors[value] = error


@asynccontextmanager
async def producing(cluster: EmbeddedCluster, **options: Any) -> AsyncIterator[RecordedProducer]:
    events: list[Event] = []
    async with Producer(
        cluster.bootstrap_servers,
        Config(**options),
        observers=[events.append],
        transport=cluster.transport,
        rng=random.Random(1),
        wall_clock=virtual_wall_clock,
    ) as producer:
        yield RecordedProducer(producer, cluster, events)


def log(cluster: EmbeddedCluster, partition: int = 0, topic: str = "orders") -> list[Message]:
    """Return the records of a log."""
    return records(cluster.log(topic, partition).batches(), TopicPartition(topic, partition))


def records(batches: Iterable[bytes], partition: TopicPartition) -> list[Message]:
    """Return the records of these batches."""
    return [message for data in batches for raw in split(data, partition, 0) for message in decode(raw, partition)]


def values(cluster: EmbeddedCluster, partition: int = 0, topic: str = "orders") -> list[bytes | None]:
    return [message.value for message in log(cluster, partition, topic)]


async def cancelled_after(seconds: float, sent: RecordedProducer, value: bytes) -> None:
    """Send a record, and cancel the call after `seconds`."""
    with trio.move_on_after(seconds):
        await sent.send(value)
