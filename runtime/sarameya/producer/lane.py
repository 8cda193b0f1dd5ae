"""What is on its way to one partition: records, the batch that some of them have become. Pure data."""

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
    """What a broker knows a producer by. A later epoch puts an end to what was sent under an earlier one."""

    producer_id: int
    epoch: int

    def next(self) -> Identity | None:
        """None where epochs are used up: then another id is wanted."""
        return Identity(self.producer_id, self.epoch + 1) if self.epoch < _LAST_EPOCH else None


@attrs.define(slots=True, eq=False)
class Pending:
    """A record on its way. `tell` is called once, when there is an `outcome`."""

    partition: TopicPartition
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    size: int
    tell: Callable[[], None]
    outcome: RecordMetadata | SarameyaError | None = None
    is_wanted: bool = True
    """Whether anybody waits for the outcome."""

    def settle(self, outcome: RecordMetadata | SarameyaError) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.tell()


@attrs.frozen(slots=True, eq=False)
class Batch:
    """Records that go together; `data` is what is sent, however often."""

    partition: TopicPartition
    records: tuple[Pending, ...]
    identity: Identity
    base_sequence: int
    data: bytes


@attrs.define(slots=True, eq=False)
class Lane:
    partition: TopicPartition
    most_bytes: int
    """Of records that go together; falls where the topic takes less."""
    queue: deque[Pending] = attrs.field(factory=deque)
    batch: Batch | None = None
    is_out: bool = False
    identity: Identity | None = None
    """Whose sequence `sequence` is; another one begins at 0."""
    sequence: int = 0
    attempts: Attempts | None = None
    retry_at: float = -inf
    trouble: str = "it has not been sent"

    @property
    def has_work(self) -> bool:
        return not self.is_out and bool(self.batch or self.queue)

    def next_records(self) -> list[Pending]:
        """Those that go together: one at least."""
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
        """What was in its batch, which is no more."""
        records = self.batch.records if self.batch else ()
        self.batch, self.is_out = None, False
        return records
