"""Unacknowledged records of one partition, and the batch that some of them form. Pure data."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from math import inf

import attrs

from sarameya.errors import SarameyaError
from sarameya.model import Headers, TopicPartition
from sarameya.producer.record import RecordMetadata
from sarameya.protocol.backoff import Attempts

_LAST_EPOCH = 2**15 - 1


@attrs.frozen(slots=True)
class Identity:
    """Producer id and epoch. A later epoch makes brokers refuse batches of earlier ones."""

    producer_id: int
    epoch: int

    def next(self) -> Identity | None:
        """Return the next epoch, or None if epochs are used up: then a new id is needed."""
        return Identity(self.producer_id, self.epoch + 1) if self.epoch < _LAST_EPOCH else None


@attrs.define(slots=True, eq=False)
class Pending:
    """A record without an acknowledgement. `on_outcome` is called once, when there is an `outcome`."""

    partition: TopicPartition
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    size: int
    on_outcome: Callable[[], None]
    outcome: RecordMetadata | SarameyaError | None = None
    is_wanted: bool = True
    """False once nobody waits for the outcome."""

    def settle(self, outcome: RecordMetadata | SarameyaError) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.on_outcome()


@attrs.frozen(slots=True, eq=False)
class Batch:
    """Records that are sent together; every attempt sends the same `data`."""

    partition: TopicPartition
    records: tuple[Pending, ...]
    identity: Identity
    base_sequence: int
    data: bytes


@attrs.define(slots=True, eq=False)
class PartitionQueue:
    """Queue and current batch of one partition."""

    partition: TopicPartition
    most_bytes: int
    """Bytes of records in one batch, at most; reduced if the topic accepts less."""
    queue: deque[Pending] = attrs.field(factory=deque)
    batch: Batch | None = None
    is_out: bool = False
    identity: Identity | None = None
    """Identity that `sequence` belongs to; another one starts at 0."""
    sequence: int = 0
    attempts: Attempts | None = None
    retry_at: float = -inf
    trouble: str = "not sent yet"

    @property
    def has_work(self) -> bool:
        return not self.is_out and bool(self.batch or self.queue)

    def next_records(self) -> list[Pending]:
        """Return the records of the next batch: at least one."""
        taken: list[Pending] = []
        size = 0
        for pending in self.queue:
            if taken and size + pending.size > self.most_bytes:
                break
            taken.append(pending)
            size += pending.size
        return taken

    def put_back(self, records: Iterable[Pending]) -> None:
        self.queue.extendleft([pending for pending in reversed(tuple(records)) if pending.is_wanted])

    def release(self) -> tuple[Pending, ...]:
        """Remove the batch and return its records."""
        records = self.batch.records if self.batch else ()
        self.batch, self.is_out = None, False
        return records
