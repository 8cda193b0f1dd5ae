"""Calls of `send_each`: choose partitions, pass the records to the sender, wait for their outcomes. Trio.

A call that stops waiting (timeout, cancellation) withdraws its own records only. Records of other calls are still sent,
even those in the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from sarameya.config import Config
from sarameya.error_codes import ErrorCode
from sarameya.errors import DeliveryTimeoutError, KafkaError, MessageTooLargeError, SarameyaError, UnknownTopicError
from sarameya.model import TopicPartition
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.open_calls import OpenCalls
from sarameya.producer.outbox import Outbox
from sarameya.producer.partition_queue import Pending
from sarameya.producer.partitioner import Partitioner
from sarameya.producer.record import ProducerRecord, RecordMetadata
from sarameya.producer.sender import Sender
from sarameya.producer.verdicts import refusal
from sarameya.protocol.cluster.metadata import ClusterMetadata
from sarameya.protocol.records.batch_codec import estimated_size

CLOSED = "a Producer works only inside its block: `async with Producer(...) as producer`"


class Deliveries:
    """Pending calls of one producer."""

    def __init__(
        self, config: Config, metadata: MetadataRefresher, outbox: Outbox, sender: Sender, partitioner: Partitioner
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._outbox = outbox
        self._sender = sender
        self._partitioner = partitioner
        self._calls = OpenCalls(CLOSED)

    def close(self) -> None:
        """End all waiting calls with RuntimeError."""
        self._calls.close()

    async def deliver(self, records: Sequence[ProducerRecord], now_ms: int) -> list[RecordMetadata | SarameyaError]:
        """Send records as `Producer.send_each` does. `now_ms` is the timestamp of records that have none."""
        deadline = trio.current_time() + self._config.delivery_timeout
        for record in records:
            self._check_size(record)
        count = _Countdown(len(records))
        with self._calls.call():
            await trio.lowlevel.checkpoint_if_cancelled()  # a caller that is cancelled already sends nothing
            pending = await self._prepare(records, now_ms, count, deadline)
            self._sender.send_nowait(pending)
            try:
                with trio.move_on_at(deadline):
                    await count.done.wait()
            finally:
                self._outbox.withdraw([record for record in pending if record.outcome is None])
        return [self._outcome(record) for record in pending]

    def _check_size(self, record: ProducerRecord) -> None:
        size, limit = estimated_size(record.key, record.value, record.headers), self._config.max_request_bytes
        if size > limit:
            raise MessageTooLargeError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{record}, of {size} bytes",
                f"max_request_bytes is {limit}; raise it, or send less",
            )

    async def _prepare(
        self, records: Sequence[ProducerRecord], now_ms: int, count: _Countdown, deadline: float
    ) -> list[Pending]:
        with trio.move_on_at(deadline):
            metadata = await self._metadata_for(records)
            return [self._pending(record, metadata, now_ms, count) for record in records]
        what = f"records for {', '.join(sorted({record.topic for record in records}))}"
        raise DeliveryTimeoutError(what, self._config.delivery_timeout, "the topic's partitions are not known")

    async def _metadata_for(self, records: Sequence[ProducerRecord]) -> ClusterMetadata:
        """Return metadata with all topics of the records. A partition that a record names may be missing."""
        topics = sorted({record.topic for record in records})
        current = self._metadata.current
        if current.missing(topics) or not all(_partition_exists(record, current) for record in records):
            try:
                return await self._metadata.wait_for_topics(topics)
            except KafkaError as error:
                raise refusal(error.code, error.context) from None  # a producer needs other ACLs than a consumer
        return current

    def _pending(self, record: ProducerRecord, metadata: ClusterMetadata, now_ms: int, count: _Countdown) -> Pending:
        size = estimated_size(record.key, record.value, record.headers)
        if not _partition_exists(record, metadata):
            last = max(metadata.topics[record.topic].partitions)
            advice = f"topic {record.topic!r} has the partitions 0 to {last}"
            raise UnknownTopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(record), advice)
        number = self._choose(record, metadata, size) if record.partition is None else record.partition
        return Pending(
            partition=TopicPartition(record.topic, number),
            timestamp=now_ms if record.timestamp is None else record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
            size=size,
            on_outcome=count.decrement,
        )

    def _choose(self, record: ProducerRecord, metadata: ClusterMetadata, size: int) -> int:
        numbers = metadata.topics[record.topic].partitions
        candidates = sorted(numbers) if record.key is None else ()
        with_leader = [n for n in candidates if metadata.leader(TopicPartition(record.topic, n)) is not None]
        return self._partitioner.choose(record.topic, record.key, size, len(numbers), with_leader)

    def _outcome(self, record: Pending) -> RecordMetadata | SarameyaError:
        if record.outcome is not None:
            return record.outcome
        trouble = self._outbox.trouble(record.partition)
        return DeliveryTimeoutError(f"record for {record.partition}", self._config.delivery_timeout, trouble)


def _partition_exists(record: ProducerRecord, metadata: ClusterMetadata) -> bool:
    return record.partition is None or metadata.partition(TopicPartition(record.topic, record.partition)) is not None


class _Countdown:
    """Event `done` that is set once `count` records have an outcome."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.done = trio.Event()
        if not count:
            self.done.set()

    def decrement(self) -> None:
        self._left -= 1
        if not self._left:
            self.done.set()
