"""Unacknowledged records of a producer: batches, sequences, attempts. Pure: `now` is an argument.

Each partition is a lane. Only one batch of a lane is in flight at a time, so records stay in order, and a broker, which
remembers the last five batches, recognises each repetition. A batch that was sent is sent again with the same bytes and
the same sequence until its outcome is known:

    queue ──form──► batch ──send──► out ──stored, refused──► (outcome)
                      ▲               │
                      └──── again ────┘ ──renumber, halve──► queue

An abandoned batch (timeout, or nobody waits any more) may be stored or not, or may be stored later. The producer's
epoch then rises, so that brokers refuse it if it has not arrived by then (KIP-360).

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

_MOST_SEQUENCES = 2**31
"""Number of sequences; after the last one they start at 0 again."""


@attrs.frozen(slots=True)
class DueBatches:
    """Batches to send now, by leader.

    `leaderless` are partitions that have records and no leader. `wake_at` is the time of the next call if nothing else
    happens before.
    """

    requests: dict[int, list[Batch]]
    leaderless: tuple[TopicPartition, ...]
    wake_at: float


class Outbox:
    """The lanes of a producer. The owner sets `identity` whenever it is None and `has_work`."""

    def __init__(self, backoff: Backoff, *, batch_bytes: int, request_bytes: int, codec: Codec) -> None:
        self.identity: Identity | None = None
        self._backoff = backoff
        self._batch_bytes = batch_bytes
        self._request_bytes = request_bytes
        self._codec = codec
        self._lanes: dict[TopicPartition, PartitionQueue] = {}

    @property
    def has_work(self) -> bool:
        """True if any record or batch waits to be sent."""
        return any(lane.has_work for lane in self._lanes.values())

    def trouble(self, partition: TopicPartition) -> str:
        """Return the last obstacle for this partition's records."""
        return self._lanes[partition].trouble

    def hold_up(self, cause: str) -> None:
        """Note why nothing can be sent for now."""
        for lane in self._lanes.values():
            lane.trouble = cause

    # -- in -----------------------------------------------------------------------------------------

    def add(self, pending: Pending) -> None:
        lane = self._lanes.get(pending.partition)
        if lane is None:
            lane = self._lanes[pending.partition] = PartitionQueue(pending.partition, self._batch_bytes)
        lane.queue.append(pending)

    def give_up(self, records: Collection[Pending]) -> None:
        """Withdraw records that nobody waits for any more. Unsent ones are dropped."""
        for pending in records:
            pending.is_wanted = False
        for partition in {pending.partition for pending in records}:
            lane = self._lanes[partition]
            lane.queue = deque(pending for pending in lane.queue if pending.is_wanted)
            if not lane.is_out:
                self._tidy(lane)

    def fail_all(self, error: SarameyaError) -> None:
        """Fail all records, including those in flight."""
        for lane in self._lanes.values():
            self._renew(lane)
            for pending in (*lane.release(), *lane.queue):
                pending.settle(error.again())
            lane.queue.clear()

    # -- out ----------------------------------------------------------------------------------------

    def due(self, leader: Callable[[TopicPartition], int | None], busy: Collection[int], now: float) -> DueBatches:
        """Return the batches for leaders that are not `busy`, and mark them as sent. Needs an `identity`."""
        requests: dict[int, list[Batch]] = {}
        room: dict[int, int] = {}
        leaderless: list[TopicPartition] = []
        wake_at = inf
        for lane in tuple(self._lanes.values()):
            if not lane.has_work:
                continue
            if lane.retry_at > now:
                wake_at = min(wake_at, lane.retry_at)
                continue
            node = leader(lane.partition)
            if node is None:
                leaderless.append(lane.partition)
            elif node not in busy:
                size = len(lane.batch.data) if lane.batch else sum(p.size for p in lane.next_records())
                if node in requests and size > room[node]:
                    continue
                requests.setdefault(node, []).append(self._send(lane))
                room[node] = room.get(node, self._request_bytes) - size
        return DueBatches(requests, tuple(leaderless), wake_at)

    def _send(self, lane: PartitionQueue) -> Batch:
        batch = lane.batch = lane.batch or self._form(lane)
        lane.is_out = True
        lane.trouble = "no response from the leader"
        # A lane that was served goes to the end.
        self._lanes[lane.partition] = self._lanes.pop(lane.partition)
        return batch

    def _form(self, lane: PartitionQueue) -> Batch:
        assert self.identity is not None, "a producer id comes first"
        if lane.identity != self.identity:
            lane.identity, lane.sequence = self.identity, 0
        records = lane.next_records()
        for _ in records:
            lane.queue.popleft()
        data = build(
            [(pending.timestamp, pending.key, pending.value, pending.headers) for pending in records],
            codec=self._codec,
            producer_id=lane.identity.producer_id,
            producer_epoch=lane.identity.epoch,
            base_sequence=lane.sequence,
        )
        return Batch(lane.partition, tuple(records), lane.identity, lane.sequence, data)

    # -- outcomes ------------------------------------------------------------------------------------

    def stored(self, batch: Batch, base_offset: int) -> None:
        """Record that the batch is in the log, at `base_offset` or at an unknown offset (UNKNOWN_OFFSET)."""
        if (lane := self._lane(batch)) is None:
            return
        lane.sequence = (batch.base_sequence + len(batch.records)) % _MOST_SEQUENCES
        lane.attempts = None
        for place, pending in enumerate(lane.release()):
            offset = base_offset + place if base_offset >= 0 else UNKNOWN_OFFSET
            pending.settle(RecordMetadata(batch.partition.partition, offset))

    def again(self, batch: Batch, cause: str, now: float) -> Retrying | None:
        """Send the batch again, unless nobody waits for it: it is not stored, or nobody knows."""
        if (lane := self._lane(batch)) is None:
            return None
        lane.is_out = False
        self._tidy(lane)
        return self._wait(lane, cause, now)

    def leaderless(self, partition: TopicPartition, cause: str, now: float) -> Retrying | None:
        """Delay this partition's records: it has no leader."""
        return self._wait(self._lanes[partition], cause, now)

    def renumber(self, batch: Batch, cause: str, now: float) -> Retrying | None:
        """Send the records again under the next epoch: the broker refuses the batch's sequence."""
        if (lane := self._lane(batch)) is None:
            return None
        self._renew(lane)
        lane.put_back(lane.release())
        return self._wait(lane, cause, now)

    def halve(self, batch: Batch) -> bool:
        """Send the records again in smaller batches: the batch is too large. Return False for a single record."""
        if (lane := self._lane(batch)) is None:
            return True
        if len(batch.records) == 1:
            return False
        lane.most_bytes = sum(pending.size for pending in batch.records) // 2
        lane.put_back(lane.release())
        return True

    def refused(
        self, batch: Batch, error: SarameyaError, places: Collection[int] = (), *, is_fenced: bool = False
    ) -> None:
        """Fail a batch that is not stored, and will not be.

        Args:
            batch: The batch.
            error: The reason.
            places: Indexes of the records that are to blame, if the broker names them. The others are sent again.
            is_fenced: The producer id is unusable, and another is needed.
        """
        if (lane := self._lane(batch)) is None:
            return
        self._renew(lane)
        if is_fenced and self.identity is not None and self.identity.producer_id == batch.identity.producer_id:
            self.identity = None
        records = lane.release()
        # If it names none, or only unknown ones, all of them are to blame.
        blamed = {place for place in places if 0 <= place < len(records)} or range(len(records))
        lane.put_back(pending for place, pending in enumerate(records) if place not in blamed)
        for place in blamed:
            records[place].settle(error.again())

    def _lane(self, batch: Batch) -> PartitionQueue | None:
        """Return the batch's lane, or None if the batch was abandoned meanwhile."""
        lane = self._lanes[batch.partition]
        return lane if lane.batch is batch else None

    def _wait(self, lane: PartitionQueue, cause: str, now: float) -> Retrying | None:
        lane.trouble = cause
        if not lane.has_work:
            return None
        attempts = lane.attempts.again(cause) if lane.attempts else Attempts.first(now, cause)
        lane.attempts = attempts
        what = f"produce to {lane.partition}"
        if self._backoff.gives_up(attempts, now):
            self._fail(lane, RetriesExhaustedError(what, attempts.attempt, now - attempts.since, cause))
            return None
        delay = self._backoff.delay(attempts.attempt)
        lane.retry_at = now + delay
        return Retrying(what, attempts.attempt, now - attempts.since, delay, cause, kind="produce")

    def _fail(self, lane: PartitionQueue, error: SarameyaError) -> None:
        """Fail the batch whose retries are exhausted; records queued behind it get attempts of their own."""
        self._renew(lane)
        lane.attempts = None
        for pending in lane.release() or tuple(self._taken(lane)):
            pending.settle(error.again())

    def _taken(self, lane: PartitionQueue) -> Iterator[Pending]:
        while lane.queue:
            yield lane.queue.popleft()

    def _tidy(self, lane: PartitionQueue) -> None:
        """Abandon a batch that nobody waits for."""
        if lane.batch is not None and not any(pending.is_wanted for pending in lane.batch.records):
            self._renew(lane)
            lane.release()
        if not lane.has_work:
            lane.attempts, lane.retry_at = None, -inf

    def _renew(self, lane: PartitionQueue) -> None:
        """Let the lane continue with sequence 0 under an epoch that its batch has not used."""
        if lane.batch is not None and lane.batch.identity == self.identity:
            self.identity = self.identity.next()
