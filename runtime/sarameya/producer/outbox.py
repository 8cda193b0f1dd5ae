"""Unacknowledged records of a producer: batches, sequences, attempts. Pure: `now` is an argument.

Each partition has a queue. Only one batch of a partition is in flight at a time, so its records stay in order. A broker
remembers a producer's last five batches of a partition, so it recognises a batch that is sent again. A batch that was
sent is sent again with the same bytes and the same sequence until its outcome is known:

    queue ──form──► batch ──send──► in flight ──stored, refused──► (outcome)
                      ▲                 │
                      └───── again ─────┘ ──renumber, halve──► queue

If no caller waits for a batch any more (timeout, cancellation), it is abandoned. It may be stored or not, or may be
stored later. The producer's epoch then rises, so that brokers refuse the batch if it has not arrived by then (KIP-360).

A rule that is easily broken:

- A batch that was sent never changes under its sequence number. Test:
  `tests/producer/test_outbox.py::test_unanswered_batch_is_resent_unchanged`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from math import inf

import attrs

from sarameya.errors import RetriesExhaustedError, SarameyaError
from sarameya.model import TopicPartition
from sarameya.observe import Retrying
from sarameya.producer.partition_queue import Batch, Identity, PartitionQueue, Pending
from sarameya.producer.record import UNKNOWN_OFFSET, RecordMetadata
from sarameya.protocol.backoff import Attempts, Backoff
from sarameya.protocol.records.batch_codec import build
from sarameya.protocol.records.compression import Codec

_SEQUENCES = 2**31
"""Number of sequences. After the last sequence they start at 0 again."""


@attrs.frozen(slots=True)
class DueBatches:
    """Batches to send now, by leader.

    Attributes:
        requests: Leader -> its batches.
        leaderless: Partitions that have records, but no leader.
        wake_at: Time of the next call of `due`, unless a response or a new record comes first.
    """

    requests: dict[int, list[Batch]]
    leaderless: tuple[TopicPartition, ...]
    wake_at: float


class Outbox:
    """Queues of all partitions of a producer.

    The owner sets `identity` (producer id and epoch) whenever it is None and `has_work` is True.
    """

    def __init__(self, backoff: Backoff, *, batch_bytes: int, request_bytes: int, codec: Codec) -> None:
        self.identity: Identity | None = None
        self._backoff = backoff
        self._batch_bytes = batch_bytes
        self._request_bytes = request_bytes
        self._codec = codec
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        """Queue of each partition, in the order of sending: the one that was served last is last."""

    @property
    def has_work(self) -> bool:
        """True if any record or batch waits to be sent."""
        return any(queue.has_work for queue in self._queues.values())

    def trouble(self, partition: TopicPartition) -> str:
        """Return the last reason why this partition's records were not stored."""
        return self._queues[partition].trouble

    def set_trouble(self, cause: str) -> None:
        """Record why no partition's records can be sent for now."""
        for queue in self._queues.values():
            queue.trouble = cause

    # -- in -----------------------------------------------------------------------------------------

    def add(self, pending: Pending) -> None:
        queue = self._queues.get(pending.partition)
        if queue is None:
            queue = self._queues[pending.partition] = PartitionQueue(pending.partition, self._batch_bytes)
        queue.waiting.append(pending)

    def withdraw(self, records: Collection[Pending]) -> None:
        """Withdraw records whose caller no longer waits. Records that are in no batch yet are dropped."""
        for pending in records:
            pending.is_wanted = False
        for partition in {pending.partition for pending in records}:
            queue = self._queues[partition]
            queue.waiting = deque(pending for pending in queue.waiting if pending.is_wanted)
            if not queue.in_flight:
                self._abandon_unwanted(queue)

    def fail_all(self, error: SarameyaError) -> None:
        """Fail all records, including those in flight."""
        for queue in self._queues.values():
            self._restart_sequence(queue)
            for pending in (*queue.release(), *queue.waiting):
                pending.settle(error.again())
            queue.waiting.clear()

    # -- out ----------------------------------------------------------------------------------------

    def due(self, leader: Callable[[TopicPartition], int | None], busy: Collection[int], now: float) -> DueBatches:
        """Return the batches to send now, and mark them as in flight. `identity` must be set.

        Args:
            leader: Returns the leader of a partition, None if it has none.
            busy: Leaders that get no batches now.
            now: The current time.
        """
        requests: dict[int, list[Batch]] = {}
        room: dict[int, int] = {}
        leaderless: list[TopicPartition] = []
        wake_at = inf
        for queue in tuple(self._queues.values()):
            if not queue.has_work:
                continue
            if queue.retry_at > now:
                wake_at = min(wake_at, queue.retry_at)
                continue
            node = leader(queue.partition)
            if node is None:
                leaderless.append(queue.partition)
            elif node not in busy:
                size = len(queue.batch.data) if queue.batch else sum(p.size for p in queue.next_records())
                if node in requests and size > room[node]:
                    continue
                requests.setdefault(node, []).append(self._send(queue))
                room[node] = room.get(node, self._request_bytes) - size
        return DueBatches(requests, tuple(leaderless), wake_at)

    def _send(self, queue: PartitionQueue) -> Batch:
        batch = queue.batch = queue.batch or self._form(queue)
        queue.in_flight = True
        queue.trouble = "no response from the leader"
        # Last in order now, so that the other partitions are served first.
        self._queues[queue.partition] = self._queues.pop(queue.partition)
        return batch

    def _form(self, queue: PartitionQueue) -> Batch:
        assert self.identity is not None, "a producer id comes first"
        if queue.identity != self.identity:
            queue.identity, queue.sequence = self.identity, 0
        records = queue.next_records()
        for _ in records:
            queue.waiting.popleft()
        data = build(
            [(pending.timestamp, pending.key, pending.value, pending.headers) for pending in records],
            codec=self._codec,
            producer_id=queue.identity.producer_id,
            producer_epoch=queue.identity.epoch,
            base_sequence=queue.sequence,
        )
        return Batch(queue.partition, tuple(records), queue.identity, queue.sequence, data)

    # -- outcomes ------------------------------------------------------------------------------------

    def stored(self, batch: Batch, base_offset: int) -> None:
        """Record that the batch is in the log, at `base_offset` or at an unknown offset (UNKNOWN_OFFSET)."""
        if (queue := self._queue_of(batch)) is None:
            return
        queue.sequence = (batch.base_sequence + len(batch.records)) % _SEQUENCES
        queue.attempts = None
        for place, pending in enumerate(queue.release()):
            offset = base_offset + place if base_offset >= 0 else UNKNOWN_OFFSET
            pending.settle(RecordMetadata(batch.partition.partition, offset))

    def again(self, batch: Batch, cause: str, now: float) -> Retrying | None:
        """Schedule a retry of a batch that is not stored, or may be; or abandon it if no caller waits for it.

        Returns:
            The retry, or None if there is none.
        """
        if (queue := self._queue_of(batch)) is None:
            return None
        queue.in_flight = False
        self._abandon_unwanted(queue)
        return self._wait(queue, cause, now)

    def leaderless(self, partition: TopicPartition, cause: str, now: float) -> Retrying | None:
        """Delay the records of a partition without a leader. Return the retry, as `again` does."""
        return self._wait(self._queues[partition], cause, now)

    def renumber(self, batch: Batch, cause: str, now: float) -> Retrying | None:
        """Send the records again under the next epoch, since the broker refuses the batch's sequence.

        Return the retry, as `again` does.
        """
        if (queue := self._queue_of(batch)) is None:
            return None
        self._restart_sequence(queue)
        queue.put_back(queue.release())
        return self._wait(queue, cause, now)

    def halve(self, batch: Batch) -> bool:
        """Send the records of a batch that is too large again in smaller batches. Return False for a single record."""
        if (queue := self._queue_of(batch)) is None:
            return True
        if len(batch.records) == 1:
            return False
        queue.max_batch_bytes = sum(pending.size for pending in batch.records) // 2
        queue.put_back(queue.release())
        return True

    def refused(
        self, batch: Batch, error: SarameyaError, places: Collection[int] = (), *, is_fenced: bool = False
    ) -> None:
        """Fail a batch that is not stored, and will not be.

        Args:
            batch: The batch.
            error: The reason.
            places: Indexes of the records that caused the error, if the broker names them. The others are sent again.
            is_fenced: True if the producer id is unusable: another is requested.
        """
        if (queue := self._queue_of(batch)) is None:
            return
        self._restart_sequence(queue)
        if is_fenced and self.identity is not None and self.identity.producer_id == batch.identity.producer_id:
            self.identity = None
        records = queue.release()
        # If the broker names no record of the batch, all of them fail.
        failed = {place for place in places if 0 <= place < len(records)} or range(len(records))
        queue.put_back(pending for place, pending in enumerate(records) if place not in failed)
        for place in failed:
            records[place].settle(error.again())

    def _queue_of(self, batch: Batch) -> PartitionQueue | None:
        """Return the batch's queue, or None if the batch was abandoned meanwhile."""
        queue = self._queues[batch.partition]
        return queue if queue.batch is batch else None

    def _wait(self, queue: PartitionQueue, cause: str, now: float) -> Retrying | None:
        """Schedule the partition's next attempt, or fail its records if retries are exhausted."""
        queue.trouble = cause
        if not queue.has_work:
            return None
        attempts = queue.attempts.again(cause) if queue.attempts else Attempts.first(now, cause)
        queue.attempts = attempts
        what = f"produce to {queue.partition}"
        if self._backoff.gives_up(attempts, now):
            self._fail(queue, RetriesExhaustedError(what, attempts.attempt, now - attempts.since, cause))
            return None
        delay = self._backoff.delay(attempts.attempt)
        queue.retry_at = now + delay
        return Retrying(what, attempts.attempt, now - attempts.since, delay, cause, kind="produce")

    def _fail(self, queue: PartitionQueue, error: SarameyaError) -> None:
        """Fail the batch whose retries are exhausted or, if there is none, all waiting records.

        Records that wait behind a failed batch get attempts of their own.
        """
        self._restart_sequence(queue)
        queue.attempts = None
        for pending in queue.release() or tuple(self._take_waiting(queue)):
            pending.settle(error.again())

    def _take_waiting(self, queue: PartitionQueue) -> Iterator[Pending]:
        while queue.waiting:
            yield queue.waiting.popleft()

    def _abandon_unwanted(self, queue: PartitionQueue) -> None:
        """Abandon the current batch if no caller waits for any of its records."""
        if queue.batch is not None and not any(pending.is_wanted for pending in queue.batch.records):
            self._restart_sequence(queue)
            queue.release()
        if not queue.has_work:
            queue.attempts, queue.retry_at = None, -inf

    def _restart_sequence(self, queue: PartitionQueue) -> None:
        """Continue with sequence 0 under the next epoch, unless the current batch is of an earlier epoch already."""
        if queue.batch is not None and queue.batch.identity == self.identity:
            self.identity = self.identity.next()
