"""Sequence numbers of idempotent producers, so that a batch sent twice is stored once (KIP-98).

Pure. Each `PartitionLog` has one `ProducerState`: it calls `check` before an append and `record` after it.
"""

from __future__ import annotations

from collections import deque

import attrs

from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.protocol.records.batch_codec import RawBatch

_BATCHES_KEPT = 5
"""Batches remembered of each producer.

A producer has at most five requests in flight, so that a retry is one of its last five batches.
"""

_LAST_SEQUENCE = 2**31 - 1
"""The largest sequence number; the next one is 0."""


@attrs.frozen(slots=True)
class _AppendedBatch:
    base_sequence: int
    last_sequence: int
    base_offset: int


@attrs.define(slots=True)
class _Producer:
    epoch: int
    batches: deque[_AppendedBatch] = attrs.field(factory=lambda: deque(maxlen=_BATCHES_KEPT))

    @property
    def next_sequence(self) -> int:
        return _following(self.batches[-1].last_sequence) if self.batches else 0


class ProducerState:
    """Recent batches of each producer id. Batches without a producer id are ignored."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def check(self, batch: RawBatch) -> int | None:
        """Return the base offset that `batch` got when it was first appended; None if it is new.

        A producer without state may start at any sequence number, since its state may have been deleted with its
        records.

        Raises:
            Refused: INVALID_PRODUCER_EPOCH for an old epoch, OUT_OF_ORDER_SEQUENCE_NUMBER for a gap.
        """
        if batch.producer_id < 0:
            return None
        known = self._producers.get(batch.producer_id)
        if known is None:
            return None
        self.check_epoch(batch.producer_id, batch.producer_epoch)
        name = f"producer {batch.producer_id}"
        if batch.producer_epoch > known.epoch:
            if batch.base_sequence != 0:
                raise Refused(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"{name} starts epoch {batch.producer_epoch} at sequence {batch.base_sequence} instead of 0",
                )
            return None
        last_sequence = _last_sequence(batch)
        for kept in known.batches:
            if (kept.base_sequence, kept.last_sequence) == (batch.base_sequence, last_sequence):
                return kept.base_offset
        expected = known.next_sequence
        if batch.base_sequence != expected:
            raise Refused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"{name} sent sequence {batch.base_sequence}, expected {expected}",
            )
        return None

    def record(self, batch: RawBatch, base_offset: int) -> None:
        """Remember a new batch that was appended at `base_offset`."""
        if batch.producer_id < 0:
            return
        known = self._producers.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        known.batches.append(_AppendedBatch(batch.base_sequence, _last_sequence(batch), base_offset))

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Check that no later epoch of the producer is known.

        Raises:
            Refused: INVALID_PRODUCER_EPOCH.
        """
        known = self._producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            raise Refused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} sent epoch {epoch}, but epoch {known.epoch} is known",
            )

    def end_transaction(self, producer_id: int, epoch: int) -> None:
        """Record a transaction marker. A later epoch resets the producer's sequence numbers."""
        known = self._producers.get(producer_id)
        if known is None or epoch > known.epoch:
            self._producers[producer_id] = _Producer(epoch)

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """Return the sequence number of the producer's next batch; 0 if this epoch is not known."""
        known = self._producers.get(producer_id)
        return known.next_sequence if known is not None and known.epoch == epoch else 0

    def forget(self) -> None:
        """Forget every producer, as after a truncation."""
        self._producers.clear()


def _last_sequence(batch: RawBatch) -> int:
    return (batch.base_sequence + batch.last_offset - batch.base_offset) & _LAST_SEQUENCE


def _following(sequence: int) -> int:
    return (sequence + 1) & _LAST_SEQUENCE
