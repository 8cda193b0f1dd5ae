"""Where one partition is being read, and what an answer to a fetch means for it. Pure.

The position moves on from batch headers, before anything is decoded: it is always the last batch's
last offset + 1, also behind empty, compacted and control-only batches. `take` turns one partition's part of a
fetch answer into an outcome; the shells carry it out. `judge` does the same for what a leader says of where a leader
epoch ends (KIP-320).
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
from sarameya.protocol.records import RawBatch, is_truncated, split
from sarameya.protocol.transactions import aborted_batches


@attrs.frozen(slots=True)
class Records:
    """Whole batches, in order, from the position asked for on."""

    batches: tuple[RawBatch, ...]
    size_bytes: int
    position: int
    """The offset asked for: what stands before it in the first batch is not wanted."""
    aborted: frozenset[int] = frozenset()
    """Base offsets of batches of aborted transactions, which are not shown (read_committed only)."""


@attrs.frozen(slots=True)
class Nothing:
    """No records this time."""


@attrs.frozen(slots=True)
class Redispatch:
    """This broker does not serve the partition (any more, or not properly): find its leader again."""

    cause: str


@attrs.frozen(slots=True)
class OutOfRange:
    """The position is not in the log: the policy decides."""


@attrs.frozen(slots=True)
class Truncated:
    """What was read from `offset` on is not what stands in the log (KIP-320); None: nobody knows from where on.
    `leader_epoch`: of what stands before that."""

    offset: int | None
    leader_epoch: int = NO_LEADER_EPOCH


@attrs.frozen(slots=True)
class NearerReplica:
    """The leader says who is to be asked instead (KIP-392)."""

    node_id: int


@attrs.frozen(slots=True)
class LeaseOver:
    """The leader is to be asked again who is the nearest."""


@attrs.frozen(slots=True)
class Failed:
    """The claim gets this error in place of messages."""

    error: SarameyaError


Elsewhere = Redispatch | OutOfRange | Truncated | NearerReplica | LeaseOver
"""Why a partition is not to be read on as it is, where it is."""

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
    # The topic is gone, or another one of its name is there: metadata tells (KIP-516).
    ErrorCode.UNKNOWN_TOPIC_ID: _Meaning.REDISPATCH,
    ErrorCode.INCONSISTENT_TOPIC_ID: _Meaning.REDISPATCH,
    # A topic's deletion, or metadata that has not reached this broker yet: the dispatcher's patience decides.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _Meaning.REDISPATCH,
    # The broker could not read its own log this time.
    ErrorCode.UNKNOWN_SERVER_ERROR: _Meaning.REDISPATCH,
    ErrorCode.OFFSET_OUT_OF_RANGE: _Meaning.OUT_OF_RANGE,
}
"""What a partition's error code in a fetch answer means; any other fails the claim."""


@attrs.define(slots=True)
class FetchCursor:
    """One partition's place in its log. Offsets as Kafka counts them; -1 where not known yet."""

    partition: TopicPartition
    position: int
    last_epoch: int = NO_LEADER_EPOCH
    """The leader epoch of what stands before the position, where that is known."""
    leader_epoch: int = NO_LEADER_EPOCH
    """The epoch of the leader we believe in, sent along so that a stale one is found out (KIP-320)."""
    topic_id: uuid.UUID | None = None
    """The topic that is read, where the cluster tells: another one may come to have its name (KIP-516)."""
    high_water_mark: int = -1
    last_stable_offset: int = -1
    """Where the first open transaction begins: read_committed reads no further."""

    def move(self, position: int, last_epoch: int = NO_LEADER_EPOCH, told_in: int = NO_LEADER_EPOCH) -> None:
        """Go on reading at `position`. Without `last_epoch`, what stands before that is not known. `told_in`: the epoch
        of the leader that told it, and so is not to be asked whether it is right."""
        self.position, self.last_epoch = position, last_epoch
        if told_in > NO_LEADER_EPOCH:
            self.leader_epoch = told_in

    def is_to_be_checked(self, leader_epoch: int) -> bool:
        """Whether a leader of this epoch may have a log that differs from what has been read: it is another one than
        wrote that, and has not been asked."""
        return NO_LEADER_EPOCH < self.last_epoch < leader_epoch and self.leader_epoch != leader_epoch

    def is_ahead_of(self, leader_epoch: int) -> bool:
        """Whether what stands before the position was written in a later epoch than this one, which metadata names.

        Its leader is none any more: its log may be shorter, and what it says of the position is not to be believed.
        """
        return NO_LEADER_EPOCH < leader_epoch < self.last_epoch

    def judge(self, answer: Any) -> Outcome:
        """What the leader says of where `last_epoch` ends (an OffsetForLeaderEpochResponse `EpochEndOffset`): Nothing
        where its log is the one that was read."""
        if answer.error_code:
            return self._refused(answer.error_code)
        if answer.end_offset < 0 or answer.leader_epoch < 0:
            return Truncated(None)  # it knows nothing of the epoch in which was written what we have read
        return Truncated(answer.end_offset, answer.leader_epoch) if answer.end_offset < self.position else Nothing()

    def take(self, answer: Any, asked: int) -> Outcome:
        """Take in one partition's part of a fetch answer (a FetchResponse `PartitionData`).

        `asked` is the offset the request named; an answer to another one is out of date, and Nothing.
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
        # A broker may begin with a batch that ends before the position (it seeks by index).
        batches: list[RawBatch] = []
        try:
            batches.extend(b for b in self._in_order(split(data, self.partition, asked)) if b.next_offset > asked)
        except RecordError as error:
            # What stands before the broken batch is good; the next fetch begins at it and fails alone.
            if not batches:
                return Failed(error)
        try:
            if not batches and is_truncated(data):
                # From Fetch v3 on a broker sends the first batch whole, whatever its size (KIP-74).
                raise CorruptRecordError(*self.partition, asked, "the broker sent less than one whole batch")
            transactions = [(a.producer_id, a.first_offset) for a in answer.aborted_transactions or ()]
            aborted = aborted_batches(batches, transactions, self.partition) if transactions else frozenset[int]()
        except RecordError as error:
            return Failed(error)
        if not batches:
            # Asking again at once would bring the same again.
            return Redispatch(f"the broker sent no batch that reaches offset {asked}")
        self.position, self.last_epoch = batches[-1].next_offset, batches[-1].leader_epoch
        return Records(tuple(batches), len(data), asked, aborted)

    def _in_order(self, batches: Iterable[RawBatch]) -> Iterator[RawBatch]:
        """The batches as long as each begins behind the one before it; what did not would come twice."""
        behind = 0
        for batch in batches:
            if batch.base_offset < behind:
                problem = f"a batch begins at {batch.base_offset}, before the end of the one before it"
                raise CorruptRecordError(*self.partition, behind, problem)
            behind = batch.next_offset
            yield batch

    def _refused(self, code: int) -> Outcome:
        match _MEANINGS.get(code, _Meaning.FAIL):
            case _Meaning.REDISPATCH:
                return Redispatch(ErrorCode.describe(code))
            case _Meaning.OUT_OF_RANGE:
                return OutOfRange()
            case _Meaning.FAIL:
                return Failed(kafka_error(code, f"fetch of {self.partition} at offset {self.position}"))
