"""Position of one partition, and the meaning of a fetch response for it. Pure.

The position advances from batch headers, before anything is decoded. It is always the last offset of the last batch +
1, also after empty, compacted and control-only batches. `take` converts one partition's part of a fetch response to an
outcome, and the callers in `consumer` act on it. `judge` does the same for a leader's answer about the end of a leader
epoch (KIP-320).

Rules that are easily broken:

- A response is used for a partition only if the partition's position is still the requested position. The response
  must not move a partition that was revoked meanwhile, and then started at another position. Test:
  `tests/protocol/test_fetch_cursor.py::test_response_for_another_position_is_ignored`.
- A position that was looked up, or moved back, has the leader epoch that was reported with it. Without an epoch, a
  truncation below the position would go unnoticed if the log grows beyond the position before the next read. Tests:
  `tests/consumer/test_truncated_logs.py::test_second_truncation_before_reading_loses_nothing`,
  `tests/consumer/test_offset_lookup.py::test_looked_up_offset_has_its_epoch`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Any

import attrs

from sarameya.error_codes import ErrorCode
from sarameya.errors import CorruptRecordError, RecordError, SarameyaError, kafka_error
from sarameya.model import NO_LEADER_EPOCH, TopicPartition
from sarameya.protocol.records.batch_codec import RawBatch, is_truncated, split
from sarameya.protocol.records.transactions import aborted_batches


@attrs.frozen(slots=True)
class Records:
    """Whole batches, in order, from the requested position on."""

    batches: tuple[RawBatch, ...]
    size_bytes: int
    position: int
    """The requested offset. Skip earlier messages of the first batch."""
    aborted: frozenset[int] = frozenset()
    """Base offsets of batches of aborted transactions, which handlers do not see (read_committed only)."""


@attrs.frozen(slots=True)
class Nothing:
    """Response without records."""


@attrs.frozen(slots=True)
class Redispatch:
    """Refusal: this broker does not serve the partition any more, or has a fault. Find the leader again."""

    cause: str


@attrs.frozen(slots=True)
class OutOfRange:
    """Position that the log does not have. The reset policy decides."""


@attrs.frozen(slots=True)
class Truncated:
    """Truncated log: its records from `offset` on differ from the records that were read (KIP-320).

    `offset` is None if the first difference is unknown. `leader_epoch` is the epoch of the record before `offset`.
    """

    offset: int | None
    leader_epoch: int = NO_LEADER_EPOCH


@attrs.frozen(slots=True)
class NearerReplica:
    """Referral: the leader names the replica to fetch from (KIP-392)."""

    node_id: int


@attrs.frozen(slots=True)
class LeaseOver:
    """End of a referral: ask the leader again for the nearest replica."""


@attrs.frozen(slots=True)
class Failed:
    """Failure: the claim gets this error in place of messages."""

    error: SarameyaError


Elsewhere = Redispatch | OutOfRange | Truncated | NearerReplica | LeaseOver
"""Outcomes after which this broker must not be asked for the next records: the broker or the position changes."""

Outcome = Records | Nothing | Failed | Elsewhere


class _Meaning(Enum):
    REDISPATCH = auto()
    OUT_OF_RANGE = auto()
    FAIL = auto()


_MEANINGS: Mapping[int, _Meaning] = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _Meaning.REDISPATCH,
    ErrorCode.LEADER_NOT_AVAILABLE: _Meaning.REDISPATCH,
    ErrorCode.REPLICA_NOT_AVAILABLE: _Meaning.REDISPATCH,
    ErrorCode.FENCED_LEADER_EPOCH: _Meaning.REDISPATCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH: _Meaning.REDISPATCH,
    ErrorCode.KAFKA_STORAGE_ERROR: _Meaning.REDISPATCH,
    ErrorCode.OFFSET_NOT_AVAILABLE: _Meaning.REDISPATCH,
    # The topic is deleted, or another one has its name: metadata decides (KIP-516).
    ErrorCode.UNKNOWN_TOPIC_ID: _Meaning.REDISPATCH,
    ErrorCode.INCONSISTENT_TOPIC_ID: _Meaning.REDISPATCH,
    # The topic is deleted, or this broker does not have its metadata yet: the `Fetcher` retries for a limited time.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _Meaning.REDISPATCH,
    # The broker could not read its own log this time.
    ErrorCode.UNKNOWN_SERVER_ERROR: _Meaning.REDISPATCH,
    ErrorCode.OFFSET_OUT_OF_RANGE: _Meaning.OUT_OF_RANGE,
}
"""Meaning of a partition's error code in a fetch response. Any other code fails the claim."""


@attrs.define(slots=True)
class FetchCursor:
    """Position of one partition in its log. `high_water_mark` and `last_stable_offset` are -1 until they are known."""

    partition: TopicPartition
    position: int
    last_epoch: int = NO_LEADER_EPOCH
    """Leader epoch of the record before the position, if it is known."""
    leader_epoch: int = NO_LEADER_EPOCH
    """Epoch of the current leader by our metadata. It is sent, so that a stale leader is detected (KIP-320)."""
    topic_id: uuid.UUID | None = None
    """Id of the topic, if the cluster has ids. After a deletion, another topic may have the same name (KIP-516)."""
    check_crcs: bool = True
    """Compare the checksums of transaction markers, which are decoded here. Claims decode all other batches."""
    high_water_mark: int = -1
    last_stable_offset: int = -1
    """Offset at which the first open transaction starts. `read_committed` reads no further."""

    def move(self, position: int, last_epoch: int = NO_LEADER_EPOCH, lookup_epoch: int = NO_LEADER_EPOCH) -> None:
        """Continue at `position`.

        Args:
            position: The new position.
            last_epoch: Leader epoch of the record before it, if it is known.
            lookup_epoch: Epoch of the leader that reported the position. That leader need not be asked to confirm it.
        """
        self.position, self.last_epoch = position, last_epoch
        if lookup_epoch > NO_LEADER_EPOCH:
            self.leader_epoch = lookup_epoch

    def is_to_be_checked(self, leader_epoch: int) -> bool:
        """Return whether this leader's log may differ from the records that were read.

        True if an earlier leader wrote the last of them, and the leader of `leader_epoch` has not been asked yet.
        """
        return NO_LEADER_EPOCH < self.last_epoch < leader_epoch and self.leader_epoch != leader_epoch

    def is_ahead_of(self, leader_epoch: int) -> bool:
        """Return whether the record before the position has a later epoch than the leader in the metadata.

        The metadata are stale then: that broker is no longer the leader. Its log may be shorter, so do not trust its
        responses about the position.

        Args:
            leader_epoch: Epoch of the leader in the metadata.
        """
        return NO_LEADER_EPOCH < leader_epoch < self.last_epoch

    def evaluate(self, answer: Any) -> Outcome:
        """Compare the position with the end of `last_epoch` on the leader.

        Args:
            answer: The partition's part of an OffsetForLeaderEpochResponse (`EpochEndOffset`).

        Returns:
            Nothing if the leader's log has the records that were read.
        """
        if answer.error_code:
            return self._refused(answer.error_code)
        if answer.end_offset < 0 or answer.leader_epoch < 0:
            return Truncated(None)  # the leader does not know the epoch of the last record that was read
        return Truncated(answer.end_offset, answer.leader_epoch) if answer.end_offset < self.position else Nothing()

    def take(self, answer: Any, asked: int) -> Outcome:
        """Process one partition's part of a fetch response (a FetchResponse `PartitionData`).

        Args:
            answer: The partition's part.
            asked: The requested offset. If it is not the position any more, the response is stale: Nothing.
        """
        if asked != self.position:
            return Nothing()
        if answer.error_code:
            return self._refused(answer.error_code)
        if (diverging := answer.diverging_epoch) is not None and diverging.end_offset >= 0:
            return Truncated(min(diverging.end_offset, asked), diverging.epoch)
        self.high_water_mark, self.last_stable_offset = answer.high_watermark, answer.last_stable_offset
        data = answer.records
        if not data:
            nearer = answer.preferred_read_replica
            return NearerReplica(nearer) if nearer is not None and nearer >= 0 else Nothing()
        # A broker may start with a batch that ends before the position (it seeks by index).
        batches: list[RawBatch] = []
        try:
            batches.extend(b for b in self._in_order(split(data, self.partition, asked)) if b.next_offset > asked)
        except RecordError as error:
            # The batches before the broken one are good; the next fetch starts at it and fails alone.
            if not batches:
                return Failed(error)
        try:
            if not batches and is_truncated(data):
                # Since Fetch v3 a broker sends the first batch whole, even beyond the size limits (KIP-74).
                raise CorruptRecordError(*self.partition, asked, "the broker sent less than one whole batch")
            transactions = [(a.producer_id, a.first_offset) for a in answer.aborted_transactions or ()]
            aborted = (
                aborted_batches(batches, transactions, self.partition, check_crc=self.check_crcs)
                if transactions
                else frozenset[int]()
            )
        except RecordError as error:
            return Failed(error)
        if not batches:
            # Another fetch from this broker would get the same response.
            return Redispatch(f"the broker sent no batch that reaches offset {asked}")
        self.position, self.last_epoch = batches[-1].next_offset, batches[-1].leader_epoch
        return Records(tuple(batches), len(data), asked, aborted)

    def _in_order(self, batches: Iterable[RawBatch]) -> Iterator[RawBatch]:
        """Yield the batches. Raise if a batch overlaps the previous batch: messages would be delivered twice."""
        next_offset = 0
        for batch in batches:
            if batch.base_offset < next_offset:
                problem = f"a batch starts at offset {batch.base_offset}, before the end of the previous batch"
                raise CorruptRecordError(*self.partition, next_offset, problem)
            next_offset = batch.next_offset
            yield batch

    def _refused(self, code: int) -> Outcome:
        match _MEANINGS.get(code, _Meaning.FAIL):
            case _Meaning.REDISPATCH:
                return Redispatch(ErrorCode.describe(code))
            case _Meaning.OUT_OF_RANGE:
                return OutOfRange()
            case _Meaning.FAIL:
                return Failed(kafka_error(code, f"fetch of {self.partition} at offset {self.position}"))
