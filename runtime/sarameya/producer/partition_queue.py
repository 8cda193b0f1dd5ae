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
    """Record without an acknowledgement. `on_outcome` is called once, when `outcome` is set."""

    partition: TopicPartition
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    size: int
    on_outcome: Callable[[], None]
    outcome: RecordMetadata | SarameyaError | None = None
    is_wanted: bool = True
    """False once its caller no longer waits for the outcome."""

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
    """Waiting records and current batch of one partition."""

    partition: TopicPartition
    max_batch_bytes: int
    """Maximal bytes of the records in one batch; reduced if the topic accepts less."""
    waiting: deque[Pending] = attrs.field(factory=deque)
    """Records that are in no batch yet."""
    batch: Batch | None = None
    """The current batch, from its first attempt until its outcome."""
    in_flight: bool = False
    """True while the current batch waits for a response."""
    identity: Identity | None = None
    """Identity that `sequence` belongs to. Under another identity the sequence starts at 0."""
    sequence: int = 0
    """Sequence of the next batch's first record."""
    attempts: Attempts | None = None
    retry_at: float = -inf
    """Time before which nothing is sent."""
    trouble: str = "not sent yet"
    """Last reason why records were not stored, for errors."""

    @property
    def has_work(self) -> bool:
        """True if there are records to send and no batch is in flight. Sending may have to wait until `retry_at`."""
        return not self.in_flight and bool(self.batch or self.waiting)

    def next_records(self) -> list[Pending]:
        """Return the records of the next batch: at least one if any wait. They stay in `waiting`."""
        taken: list[Pending] = []
        size = 0
        for pending in self.waiting:
            if taken and size + pending.size > self.max_batch_bytes:
                break
            taken.append(pending)
            size += pending.size
        return taken

    def put_back(self, records: Iterable[Pending]) -> None:
        """Put records back to the front, without those that no caller waits for."""
        self.waiting.extendleft([pending for pending in reversed(tuple(records)) if pending.is_wanted])

    def release(self) -> tuple[Pending, ...]:
        """Remove the batch and return its records."""
        records = self.batch.records if self.batch else ()
        self.batch, self.in_flight = None, False
        return records
