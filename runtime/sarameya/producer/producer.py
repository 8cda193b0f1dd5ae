"""Producer whose `send` returns once a record is acknowledged, or raises the reason why it is not."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from types import GenericAlias, TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

import attrs
import trio

from sarameya.config import Config
from sarameya.errors import SarameyaError
from sarameya.formats.format import Format
from sarameya.formats.record_encoder import RecordEncoder
from sarameya.model import Headers
from sarameya.net.bootstrap import parse_bootstrap
from sarameya.net.broker_pool import open_broker_pool
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.transport import Transport
from sarameya.observe import Observer, Observers
from sarameya.producer.deliveries import CLOSED, Deliveries
from sarameya.producer.outbox import Outbox
from sarameya.producer.partitioner import Partitioner
from sarameya.producer.record import ProducerRecord, RecordMetadata
from sarameya.producer.sender import Sender
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.records.compression import Codec
from sarameya.type_variables import K, V


class Producer(Generic[V, K]):
    """Sender of records. Use it with `async with`.

    Example::

        async with Producer(["localhost:9092"]) as producer:
            partition, offset = await producer.send("orders", b"value", key=b"key")

    All in-sync replicas have acknowledged a record when `send` returns (acks=all). The producer is idempotent (KIP-98):
    a record that is sent again after a fault is in the log once, and the records of a partition are in the order in
    which they were sent. It has no transactions. Any number of tasks may send at the same time; records that they send
    to a broker while it is busy go there together. Topics are not created.

    An error means that a record was not acknowledged. Unless a broker has refused the record, it may be stored
    nevertheless, now or later. The same holds after a cancellation, which drops the records that were not sent yet.

    Keys and values are bytes, unless they have formats: `Producer[Order](servers, value_format="json")` sends Orders.
    Such a producer encodes objects of the types that a `MessageHandler` decodes; the type in brackets is for type
    checkers only. None is never encoded: it is no key, or a tombstone.

    Creation connects to nothing. The end of the block waits for nothing: calls of `send` in other tasks raise
    RuntimeError.

    Args:
        bootstrap_servers: Addresses, each `HOST:PORT`.
        config: Options; defaults if left out.
        value_format: Format of values: a name (`json`, `string`, `protobuf`), or a `Format` (Avro, a schema registry).
        key_format: The same for keys.
        observers: Called with each event.
        transport: Opens the connections; TCP if left out.
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
        parse_bootstrap(bootstrap_servers)
        self._encoder = RecordEncoder(key_format, value_format)
        self.config = config if config is not None else Config()
        self._bootstrap = bootstrap_servers
        self._transport = transport
        self._observer = Observers(observers)
        self._rng = rng or random.Random()
        self._backoff = Backoff.of(self.config, self._rng)
        self._wall_clock = wall_clock
        self._lifetime = self._run()
        self._deliveries: Deliveries | None = None

    async def __aenter__(self) -> Self:
        await self._lifetime.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The block's exception propagates unchanged: through the nursery it would come out in a group.
        await self._lifetime.__aexit__(None, None, None)

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        config = self.config
        async with (
            open_broker_pool(self._bootstrap, config, self._observer, self._transport) as pool,
            trio.open_nursery() as nursery,
        ):
            metadata = MetadataRefresher(pool, config, self._observer, self._backoff)
            outbox = Outbox(
                self._backoff,
                batch_bytes=min(config.produce_batch_bytes, config.max_request_bytes),
                request_bytes=config.max_request_bytes,
                codec=Codec[config.compression.upper()],
            )
            sender = Sender(outbox, pool, metadata, config, self._observer, self._backoff)
            nursery.start_soon(metadata.run)
            nursery.start_soon(sender.run)
            partitioner = Partitioner(config.produce_batch_bytes, self._rng)
            self._deliveries = deliveries = Deliveries(config, metadata, outbox, sender, partitioner)
            try:
                yield
            finally:
                self._deliveries = None
                deliveries.close()
                nursery.cancel_scope.cancel()

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
        outcomes = await self.send_each(records)
        stored = [outcome for outcome in outcomes if isinstance(outcome, RecordMetadata)]
        errors = [outcome for outcome in outcomes if isinstance(outcome, SarameyaError)]
        if errors:
            if len(outcomes) > 1:
                errors[0].add_note(f"{len(errors)} of {len(outcomes)} records were not acknowledged")
            raise errors[0]
        return stored

    async def send_each(
        self, records: Iterable[ProducerRecord[V | None, K | None]]
    ) -> list[RecordMetadata | SarameyaError]:
        """Send records as `send_many` does, and return the outcome of each: its place, or the error.

        Errors that are known before the first record is sent are raised: a topic or a partition that does not exist, a
        record larger than `Config.max_request_bytes`, no broker, a wrong key or value.
        """
        if self._deliveries is None:
            raise RuntimeError(CLOSED)
        encoded = [await self._encoded(record) for record in records]
        if self._deliveries is None:  # the block has ended meanwhile
            raise RuntimeError(CLOSED)
        return await self._deliveries.deliver(encoded, int(self._wall_clock() * 1000))

    async def _encoded(self, record: ProducerRecord[Any, Any]) -> ProducerRecord:
        key, value = await self._encoder.encode(record.topic, record.key, record.value)
        if key is record.key and value is record.value:
            return record
        return attrs.evolve(record, key=key, value=value)
