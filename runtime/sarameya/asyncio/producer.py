"""A producer for asyncio programs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Generic

from sarameya.asyncio.block import ThreadBlock
from sarameya.config import Config
from sarameya.errors import SarameyaError
from sarameya.formats.format import Format
from sarameya.model import Headers
from sarameya.net.transport import Transport
from sarameya.observe import Observer
from sarameya.producer import producer
from sarameya.producer.deliveries import CLOSED
from sarameya.producer.record import ProducerRecord, RecordMetadata
from sarameya.type_variables import K, V


class Producer(ThreadBlock, Generic[V, K]):
    """Sender of records, for asyncio: the same as `sarameya.Producer`.

    Example::

        async with Producer(["localhost:9092"]) as producer:
            partition, offset = await producer.send("orders", b"value", key=b"key")

    The producer lives in a thread of its own, from the beginning of the block to its end. Any number of tasks may send
    at the same time. Observers, `wall_clock` and formats are called in the producer's thread.

    Args:
        bootstrap_servers: Addresses, each `HOST:PORT`.
        config: Options; defaults if left out.
        value_format: Format of values: a name (`json`, `string`, `protobuf`), or a `Format` (Avro, a schema registry).
        key_format: The same for keys.
        observers: Called with each event.
        transport: Opens the connections, with trio; TCP if left out.
        rng: Source of randomness, for reproducible tests.
        wall_clock: Returns the time for timestamps, in seconds since 1970.

    Raises:
        ConfigError: An address is malformed, or a format cannot be used.
    """

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)

    def __init__(
        self,
        bootstrap_servers: Sequence[str] | str,
        config: Config | None = None,
        *,
        value_format: Format | str = "bytes",
        key_format: Format | str = "bytes",
        observers: Iterable[Observer] = (),
        transport: Transport | None = None,
        rng: random.Random | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._producer = producer.Producer[V, K](
            bootstrap_servers,
            config,
            value_format=value_format,
            key_format=key_format,
            observers=observers,
            transport=transport,
            rng=rng,
            wall_clock=wall_clock,
        )
        self._live_in("sarameya producer", self._producer, CLOSED)

    @property
    def config(self) -> Config:
        """Options."""
        return self._producer.config

    async def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
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
            EncodeError: The key or the value does not have its format.
            RegistryError: The schema registry did not respond, or does not have the schema.
            TypeError: An argument has the wrong type.
            ValueError: An argument is out of range.
        """
        (stored,) = await self.send_many([ProducerRecord(topic, value, key, headers, partition, timestamp)])
        return stored

    async def send_many(self, records: Iterable[ProducerRecord[V | None, K | None]]) -> list[RecordMetadata]:
        """Send records, in this order within each partition, and return their places once all are acknowledged.

        All are encoded before the first one is sent.

        If records have failed, raise as `send` does for the first of them, once all have an outcome. The others may be
        stored.
        """
        return await self._portal.call(self._producer.send_many, tuple(records))

    async def send_each(
        self, records: Iterable[ProducerRecord[V | None, K | None]]
    ) -> list[RecordMetadata | SarameyaError]:
        """Send records as `send_many` does, and return the outcome of each: its place, or the error.

        Errors that are known before the first record is sent are raised: a topic or a partition that does not exist, a
        record larger than `Config.max_request_bytes`, no broker, a wrong key or value.
        """
        return await self._portal.call(self._producer.send_each, tuple(records))
