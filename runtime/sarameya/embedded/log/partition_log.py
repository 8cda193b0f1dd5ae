"""The log of a partition: record batches as bytes, in offset order, and every lookup by offset.

Pure: no clock, no sockets. The log assigns offsets and leader epochs, and finds offsets by position and by time. Tests
can damage it: truncate it, expire its records, add broken bytes.

`cluster_state` checks whether an append or a read is allowed. Batches are stored and returned as the bytes that were
appended. They are decoded only to find a timestamp or a transaction marker.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Container, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

import attrs

from sarameya.embedded.log.batch_validation import validated
from sarameya.embedded.log.epoch_cache import EpochCache, EpochEnd
from sarameya.embedded.log.offset_index import OffsetIndex
from sarameya.embedded.log.producer_state import ProducerState
from sarameya.embedded.log.transaction_index import TransactionIndex
from sarameya.embedded.log.transaction_markers import build_marker, is_commit
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.errors import RecordError
from sarameya.model import NO_LEADER_EPOCH, TopicPartition
from sarameya.protocol.records.batch_codec import RawBatch, decode, split

DEFAULT_MAX_BATCH_SIZE = 1024 * 1024 + 12
"""Bytes; Kafka's `message.max.bytes`."""
_MAX_DECOMPRESSED = 64 * 2**20
"""Bytes. A batch that decompresses to more is treated as broken by a lookup of a timestamp."""

_MAGIC_AT = 16
_LEADER_EPOCH_AT = 12
"""Positions of these fields in a v2 batch, in bytes."""


class TimestampedOffset(NamedTuple):
    """A record found by time: its offset, its timestamp (ms), and the leader epoch of its batch."""

    offset: int
    timestamp: int
    leader_epoch: int


@attrs.frozen(slots=True)
class LogAppendInfo:
    """Offsets of an appended batch. A duplicate has those of its first append."""

    base_offset: int
    last_offset: int


class PartitionLog:
    """The log of one partition, from `start_offset` up to, not including, `end_offset`."""

    def __init__(
        self, partition: TopicPartition, *, max_batch_size: int = DEFAULT_MAX_BATCH_SIZE, leader_epoch: int = 0
    ) -> None:
        self.partition = partition
        self.start_offset = 0
        self.end_offset = 0
        self.replicated_to: int | None = None
        """Offset up to which all in-sync replicas have the log; None: the log end. Set by `EmbeddedPartition`."""
        self._max_batch_size = max_batch_size
        self._producers = ProducerState()
        self._transactions = TransactionIndex()
        self._epochs = EpochCache(leader_epoch)
        self._index = OffsetIndex()
        # Three columns with a row for each batch. `_byte_ends` counts all bytes from the log's beginning to the
        # batch's end, so that a read of any size is two binary searches and one join.
        self._last_offsets: list[int] = []
        self._byte_ends: list[int] = []
        self._data: list[bytes] = []

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers may read."""
        return self.end_offset if self.replicated_to is None else min(self.replicated_to, self.end_offset)

    @property
    def leader_epoch(self) -> int:
        """The epoch of the current leader."""
        return self._epochs.current.epoch

    @property
    def leader_epoch_start(self) -> int:
        """The log end offset at which the current leader was elected."""
        return self._epochs.current.start_offset

    @property
    def batch_count(self) -> int:
        """The number of stored record batches."""
        return len(self._data)

    def batches(self) -> list[bytes]:
        """Return the stored batches, first to last."""
        return list(self._data)

    # Appending

    def append(self, batch: bytes) -> LogAppendInfo:
        """Append one v2 batch as its producer sent it. A duplicate is not stored again.

        Raises:
            Refused: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD, UNSUPPORTED_FOR_MESSAGE_FORMAT,
                INVALID_PRODUCER_EPOCH or OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        raw = validated(batch, self.partition, self.end_offset, self._max_batch_size)
        first_offset = self._producers.check(raw)
        count = raw.last_offset - raw.base_offset + 1
        if first_offset is not None:
            return LogAppendInfo(first_offset, first_offset + count - 1)
        appended = self._append(batch, count)
        self._producers.record(raw, appended.base_offset)
        if raw.is_transactional:
            self._transactions.add(raw.producer_id, appended.base_offset)
        return appended

    def append_marker(self, producer_id: int, producer_epoch: int, timestamp: int, *, committed: bool) -> LogAppendInfo:
        """Append a transaction marker. It ends the producer's transaction in this log, if one is open.

        Args:
            producer_id: The producer.
            producer_epoch: Its epoch.
            timestamp: Time of the marker in ms.
            committed: True to commit, False to abort.

        Raises:
            Refused: INVALID_PRODUCER_EPOCH if a later epoch of this producer is known.
        """
        self.check_producer_epoch(producer_id, producer_epoch)
        self._producers.end_transaction(producer_id, producer_epoch)
        appended = self._append(build_marker(producer_id, producer_epoch, timestamp, committed=committed), 1)
        self._transactions.end(producer_id, appended.last_offset, aborted=not committed)
        return appended

    def _append(self, batch: bytes, count: int) -> LogAppendInfo:
        base_offset, last_offset = self.end_offset, self.end_offset + count - 1
        # The CRC does not cover base offset and leader epoch, so that the leader may fill them in.
        stored = b"".join(
            (
                struct.pack(">q", base_offset),
                batch[8:_LEADER_EPOCH_AT],
                struct.pack(">i", self.leader_epoch),
                memoryview(batch)[_MAGIC_AT:],
            )
        )
        self._store(stored, last_offset)
        return LogAppendInfo(base_offset, last_offset)

    def append_raw(self, data: bytes, last_offset: int) -> None:
        """Append bytes unchanged, as the offsets up to `last_offset`, for tests.

        The bytes may be old formats, compacted gaps, control batches or garbage. Nothing is validated or rewritten:
        the offsets inside `data` stay as they are. Transactions are tracked from every batch that can be read.

        Raises:
            ValueError: `last_offset` lies before the log's end.
        """
        if last_offset < self.end_offset:
            raise ValueError(f"{self.partition}: offset {last_offset} is taken, the log ends at {self.end_offset}")
        self._store(data, last_offset)
        with suppress(RecordError):
            for raw in split(data, self.partition, last_offset):
                self._track_transaction(raw)

    def _track_transaction(self, raw: RawBatch) -> None:
        if raw.is_control:
            committed = is_commit(raw, self.partition)
            if committed is not None:
                self._transactions.end(raw.producer_id, raw.last_offset, aborted=not committed)
        elif raw.is_transactional:
            self._transactions.add(raw.producer_id, raw.base_offset)

    def _store(self, data: bytes, last_offset: int) -> None:
        if not self._data:
            self._index = OffsetIndex()  # positions count from 0 again
        position = self._byte_ends[-1] if self._byte_ends else 0
        self._index.add(position, len(data), last_offset)
        self._byte_ends.append(position + len(data))
        self._last_offsets.append(last_offset)
        self._data.append(data)
        self.end_offset = last_offset + 1

    # Reading

    def read(self, offset: int, max_bytes: int, limit: int | None = None, *, at_least_one: bool = True) -> bytes:
        """Return batches, starting with the batch that contains `offset`.

        As in Kafka, the last batch is cut off where `max_bytes` is reached, unless it is the first.

        Args:
            offset: Offset to start at.
            max_bytes: Maximum bytes to return.
            limit: Offset to stop before; None: the log's end.
            at_least_one: Return the first batch even if it is larger than `max_bytes`, so that a reader cannot get
                stuck (KIP-74).

        Returns:
            The batches as bytes; empty at the log's end.

        Raises:
            Refused: OFFSET_OUT_OF_RANGE if `offset` is outside the log.
        """
        first = self._batch_index(offset)
        end = self._batches_before(limit)
        if first >= end:
            return b""
        allowed = self._bytes_before(first) + max_bytes
        stop = bisect_right(self._byte_ends, allowed, lo=first, hi=end)
        if stop == first:
            return self._data[first] if at_least_one else b""
        cut_off = self._data[stop][: allowed - self._byte_ends[stop - 1]] if stop < end else b""
        return b"".join([*self._data[first:stop], cut_off])

    def readable_bytes(self, offset: int, limit: int | None = None) -> int:
        """Return how many bytes a `read` without a size limit would return.

        Raises:
            Refused: OFFSET_OUT_OF_RANGE if `offset` is outside the log.
        """
        first = self._batch_index(offset)
        end = self._batches_before(limit)
        return self._byte_ends[end - 1] - self._bytes_before(first) if first < end else 0

    def batch_boundary(self, offset: int) -> int:
        """Return the end of the last batch that ends at or before `offset`; the log start if there is none."""
        before = self._batches_before(offset)
        return self._last_offsets[before - 1] + 1 if before else self.start_offset

    def _batches_before(self, limit: int | None) -> int:
        """Return the number of batches whose last offset is below `limit`."""
        if limit is None or limit >= self.end_offset:
            return len(self._data)
        return bisect_left(self._last_offsets, limit)

    def _batch_index(self, offset: int) -> int:
        if not self.start_offset <= offset <= self.end_offset:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition}: offset {offset} is outside [{self.start_offset}, {self.end_offset}]",
            )
        return bisect_left(self._last_offsets, offset)

    def _bytes_before(self, batch: int) -> int:
        return self._byte_ends[batch] - len(self._data[batch])

    # Lookups

    def offset_for_time(self, timestamp: int) -> TimestampedOffset | None:
        """Return the first record with a timestamp at or after `timestamp` (ms); None if there is none (KIP-79)."""
        for raw in self._headers():
            if raw.max_timestamp >= timestamp:
                for message in decode(raw, self.partition, limit=_MAX_DECOMPRESSED):
                    if message.timestamp >= timestamp and message.offset >= self.start_offset:
                        return TimestampedOffset(message.offset, message.timestamp, raw.leader_epoch)
        return None

    def latest_by_time(self) -> TimestampedOffset | None:
        """Return the first record with the highest timestamp (KIP-734); None if the log is empty."""
        for raw in sorted(self._headers(), key=lambda raw: raw.max_timestamp, reverse=True):
            records = decode(raw, self.partition, limit=_MAX_DECOMPRESSED)
            if records:  # a batch may have none
                # As in Kafka also one that is deleted, if others of its batch are not.
                first = max(records, key=lambda message: message.timestamp)
                return TimestampedOffset(first.offset, first.timestamp, raw.leader_epoch)
        return None

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch that `offset` is, or would be, written under; NO_LEADER_EPOCH before the log."""
        return self._epochs.at(offset)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Return the largest known epoch that is not above `epoch`, and its end offset (KIP-320)."""
        return self._epochs.end(epoch, self.end_offset)

    # Transactions

    @property
    def open_transactions(self) -> Sequence[int]:
        """Ids of producers with an open transaction in this log, in the order in which the transactions started."""
        return self._transactions.open_producers

    def check_producer_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Check that no later epoch of the producer is known.

        Raises:
            Refused: INVALID_PRODUCER_EPOCH.
        """
        self._producers.check_epoch(producer_id, producer_epoch)

    def next_sequence(self, producer_id: int, producer_epoch: int) -> int:
        """Return the sequence number of the producer's next batch."""
        return self._producers.next_sequence(producer_id, producer_epoch)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the offset up to which all transactions have ended, at most `high_watermark` (KIP-98).

        Args:
            high_watermark: The high watermark of the replica that is read.
        """
        # If retention has deleted the first records of an open transaction, it counts as started at the log start.
        return min(high_watermark, max(self._transactions.last_stable_offset(high_watermark), self.start_offset))

    def aborted_transactions(self, offset: int, size: int) -> list[tuple[int, int]]:
        """Return aborted transactions that a reader of `size` bytes from `offset` must skip.

        As in Kafka, some may lie after the bytes that were read, since the search ends at the next index entry.

        Returns:
            Pairs of producer id and first offset.
        """
        if size == 0:
            return []
        bound = self._index.bound(self._bytes_before(self._batch_index(offset)) + size)
        return self._transactions.aborted(offset, self.end_offset if bound is None else bound)

    def check_leader_epoch(self, epoch: int) -> None:
        """Check a client's leader epoch against the log's (KIP-320). NO_LEADER_EPOCH always passes.

        Raises:
            Refused: FENCED_LEADER_EPOCH for an older epoch, UNKNOWN_LEADER_EPOCH for a newer one.
        """
        if epoch == NO_LEADER_EPOCH or epoch == self.leader_epoch:
            return
        raise Refused(
            ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{self.partition} is in leader epoch {self.leader_epoch}, not {epoch}",
        )

    def _headers(self) -> list[RawBatch]:
        return [raw for data in self._data for raw in split(data, self.partition, self.start_offset)]

    # Elections, retention, compaction, truncation

    def begin_epoch(self, epoch: int) -> None:
        """Start a new leader epoch at the log's end.

        Raises:
            ValueError: `epoch` is not above all earlier epochs.
        """
        self._epochs.begin(epoch, self.end_offset)

    def delete_before(self, offset: int) -> None:
        """Move the log start up to `offset`, as retention does. Batches that end before `offset` are deleted.

        Raises:
            Refused: OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        if offset > self.high_watermark:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.partition}: the high watermark is {self.high_watermark}"
            )
        self.start_offset = max(self.start_offset, offset)
        self._epochs.delete_before(self.start_offset)
        deleted = bisect_left(self._last_offsets, offset)
        del self._last_offsets[:deleted], self._byte_ends[:deleted], self._data[:deleted]

    def remove_batches(self, places: Container[int]) -> None:
        """Remove whole batches, as compaction does; the others keep their offsets.

        Args:
            places: Indexes into `batches()`.
        """
        kept = [place for place in range(len(self._data)) if place not in places]
        self._last_offsets = [self._last_offsets[place] for place in kept]
        self._data = [self._data[place] for place in kept]
        self._byte_ends = list(accumulate(map(len, self._data)))
        self._index = OffsetIndex()
        for data, end, last_offset in zip(self._data, self._byte_ends, self._last_offsets, strict=True):
            self._index.add(end - len(data), len(data), last_offset)

    def truncate(self, offset: int) -> None:
        """Truncate the log at `offset`, as an unclean election does.

        A batch that ends beyond `offset` is removed as a whole. The state of idempotent producers is cleared.

        Raises:
            ValueError: `offset` is outside the log.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise ValueError(f"{self.partition}: {offset} is outside [{self.start_offset}, {self.end_offset}]")
        kept = bisect_left(self._last_offsets, offset)
        del self._last_offsets[kept:], self._byte_ends[kept:], self._data[kept:]
        self.end_offset = offset
        self._epochs.truncate(offset)
        self._transactions.truncate(offset)
        self._index.truncate(offset)
        self._producers.forget()
