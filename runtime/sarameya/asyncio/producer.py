"""A producer for asyncio programs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence

from sarameya.asyncio.block import ThreadBlock
from sarameya.config import Config
from sarameya.model import Headers
from sarameya.net.transport import Transport
from sarameya.observe import Observer
from sarameya.producer import producer
from sarameya.producer.deliveries import CLOSED
from sarameya.producer.record import ProducerRecord, RecordMetadata


class Producer(ThreadBlock):
    """Sender of records, for asyncio: the same as `sarameya.Producer`.

    Example::

        async with Producer(["localhost:9092"]) as producer:
            partition, offset = await producer.send("orders", b"value", key=b"key")

    The producer lives in a thread of its own, from the beginning of the block to its end. Any number of tasks may send
    at the same time. Observers and `wall_clock` are called in the producer's thread.

    Args:
        bootstrap_servers: Addresses, each `HOST:PORT`.
        config: Options; defaults if left out.
        observers: Called with each event.
        transport: Opens the connections, with trio; TCP if left out.
        rng: Source of randomness, for reproducible tests.
        wall_clock: Returns the time for timestamps, in seconds since 1970.

    Raises:
        ConfigError: An address is malformed.
    """

    def __init__(
        self,
        bootstrap_servers: Sequence[str] | str,
        config: Config | None = None,
        *,
        observers: Iterable[Observer] = (),
        transport: Transport | None = None,
        rng: random.Random | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._producer = producer.Producer(
            bootstrap_servers, config, observers=observers, transport=transport, rng=rng, wall_clock=wall_clock
        )
        self._live_in("sarameya producer", self._producer, CLOSED)

    @property
    def config(self) -> Config:
        """Options."""
        return self._producer.config

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> RecordMetadata:
        """Send one record (see `ProducerRecord`) and return its partition and offset once it is acknowledged.

        Raises:
            DeliveryTimeoutError: Not acknowledged within `Config.delivery_timeout`.
            RetriesExhaustedError: The bounds for retries (`Config.retry_max_attempts`, `retry_timeout`) are reached.
            UnknownTopicError: No such topic or partition, after `Config.bootstrap_timeout`.
            TopicAuthorizationError: The broker denies access to the topic.
            MessageTooLargeError: The record is too large.
            KafkaError: The broker refuses the record for another reason.
            ConnectError: No broker can be reached.
            TypeError: An argument has the wrong type.
            ValueError: An argument is out of range.
        """
        (stored,) = await self.send_many([ProducerRecord(topic, value, key, headers, partition, timestamp)])
        return stored

    async def send_many(self, records: Iterable[ProducerRecord]) -> list[RecordMetadata]:
        """Send records, in this order within each partition, and return their places once all are acknowledged.

        If records have failed, raise as `send` does for the first of them, once all have an outcome. The others may be
        stored.
        """
        return await self._portal.call(self._producer.send_many, tuple(records))
