"""One partition's log: batches as bytes, in offset order, and everything that is asked of them by offset.

Pure: no clock, no sockets. It assigns offsets and the leader epoch, finds offsets by position and by time, and can be
hurt for tests (truncated, expired, given broken bytes). Who may append or read is the cluster's business
(`cluster_state`); what the records say is nobody's: a batch is stored and served as the bytes that came, and decoded
only to find a timestamp or a marker. Producers' batches are judged by `validation`; what is remembered of producers,
transactions and epochs is kept by `producer_state`, `transaction_index` and `epoch_cache`.
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
from sarameya.protocol.records import RawBatch, decode, split

DEFAULT_MAX_BATCH_SIZE = 1024 * 1024 + 12
"""Bytes; Kafka's `message.max.bytes`."""
_MOST_DECOMPRESSED = 64 * 2**20
"""Bytes of a batch that is looked into for a time; one that decompresses to more is taken for broken."""

_MAGIC_AT = 16
_LEADER_EPOCH_AT = 12


class TimestampedOffset(NamedTuple):
    """A record found by time: where it stands, when it was made (ms), and the epoch of its batch."""

    offset: int
    timestamp: int
    leader_epoch: int


@attrs.frozen(slots=True)
class LogAppendInfo:
    """Where a batch stands. `duplicate`: it came before, and has stood there since."""

    base_offset: int
    last_offset: int
    duplicate: bool = False


class PartitionLog:
    """The log of one partition, from `start_offset` up to, not including, `end_offset`."""

    def __init__(
        self, partition: TopicPartition, *, max_batch_size: int = DEFAULT_MAX_BATCH_SIZE, leader_epoch: int = 0
    ) -> None:
        self.partition = partition
        self.start_offset = 0
        self.end_offset = 0
        self.replicated_to: int | None = None
        """Where what all in-sync replicas have ends; None: at this log's end. `topics.Partition` sets it."""
        self._max_batch_size = max_batch_size
        self._producers = ProducerState()
        self._transactions = TransactionIndex()
        self._epochs = EpochCache(leader_epoch)
        self._index = OffsetIndex()
        # Three columns, a row a batch. `_byte_ends` counts every byte up to and with the batch since the
        # log began, so that a read of any size is two binary searches and one join.
        self._last_offsets: list[int] = []
        self._byte_ends: list[int] = []
        self._data: list[bytes] = []

    @property
    def high_watermark(self) -> int:
        """What stands before it is shown to readers."""
        return self.end_offset if self.replicated_to is None else min(self.replicated_to, self.end_offset)

    @property
    def leader_epoch(self) -> int:
        """The epoch of whoever leads it now."""
        return self._epochs.current.epoch

    @property
    def leader_epoch_start(self) -> int:
        """Where the log ended when its leader was elected."""
        return self._epochs.current.start_offset

    @property
    def batch_count(self) -> int:
        """How many record batches are stored."""
        return len(self._data)

    def batches(self) -> list[bytes]:
        """The stored batches, first to last."""
        return list(self._data)

    # Appending

    def append(self, batch: bytes) -> LogAppendInfo:
        """Store one v2 batch as its producer sent it, at the log's end; a duplicate is not stored again.

        Raises Refused: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD, UNSUPPORTED_FOR_MESSAGE_FORMAT,
        INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        raw = validated(batch, self.partition, self.end_offset, self._max_batch_size)
        first_offset = self._producers.check(raw)
        count = raw.last_offset - raw.base_offset + 1
        if first_offset is not None:
            return LogAppendInfo(first_offset, first_offset + count - 1, duplicate=True)
        appended = self._append(batch, count)
        self._producers.record(raw, appended.base_offset)
        if raw.is_transactional:
            self._transactions.add(raw.producer_id, appended.base_offset)
        return appended

    def append_marker(self, producer_id: int, producer_epoch: int, timestamp: int, *, committed: bool) -> LogAppendInfo:
        """Store the marker that ends the producer's transaction here, if it has one; `timestamp` (ms): when.

        Raises Refused with INVALID_PRODUCER_EPOCH for a producer that is known with a later epoch.
        """
        self.check_producer_epoch(producer_id, producer_epoch)
        self._producers.end_transaction(producer_id, producer_epoch)
        appended = self._append(build_marker(producer_id, producer_epoch, timestamp, committed=committed), 1)
        self._transactions.end(producer_id, appended.last_offset, aborted=not committed)
        return appended

    def _append(self, batch: bytes, count: int) -> LogAppendInfo:
        base_offset, last_offset = self.end_offset, self.end_offset + count - 1
        # Base offset and leader epoch stand outside the CRC, so that the leader may fill them in.
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
        """Store bytes as they are, standing for the offsets up to `last_offset`: whatever a test needs to be there.

        Old formats, compacted gaps, control batches, broken bytes. Nothing is validated or rewritten, so the
        offsets inside `data` are the caller's. Transactions are found in what can be read of it. Raises ValueError if
        `last_offset` lies before the log's end.
        """
        if last_offset < self.end_offset:
            raise ValueError(f"{self.partition}: offset {last_offset} is taken, the log ends at {self.end_offset}")
        self._store(data, last_offset)
        with suppress(RecordError):
            for raw in split(data, self.partition, last_offset):
                self._note_transaction(raw)

    def _note_transaction(self, raw: RawBatch) -> None:
        if raw.is_control:
            committed = is_commit(raw, self.partition)
            if committed is not None:
                self._transactions.end(raw.producer_id, raw.last_offset, aborted=not committed)
        elif raw.is_transactional:
            self._transactions.add(raw.producer_id, raw.base_offset)

    def _store(self, data: bytes, last_offset: int) -> None:
        position = self._byte_ends[-1] if self._byte_ends else 0
        self._index.add(position, len(data), last_offset)
        self._byte_ends.append(position + len(data))
        self._last_offsets.append(last_offset)
        self._data.append(data)
        self.end_offset = last_offset + 1

    # Reading

    def read(self, offset: int, max_bytes: int, limit: int | None = None, *, at_least_one: bool = True) -> bytes:
        """Batches from the one that holds `offset` on, together at most `max_bytes`, before the offset `limit`.

        With `at_least_one` the first batch comes even if it alone is larger (KIP-74), so that a reader is
        never stuck. As in Kafka the last one is cut off where the bytes are used up, if it is not the first.
        Empty at the log's end. Raises Refused with OFFSET_OUT_OF_RANGE outside the log.
        """
        first = self._first_batch(offset)
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
        """How many bytes a `read` of `offset` would return, if any number might come. Raises as `read` does."""
        first = self._first_batch(offset)
        end = self._batches_before(limit)
        return self._byte_ends[end - 1] - self._bytes_before(first) if first < end else 0

    def batch_boundary(self, offset: int) -> int:
        """Where the last batch ends that ends at or before `offset`; the log's start if none does."""
        before = self._batches_before(offset)
        return self._last_offsets[before - 1] + 1 if before else self.start_offset

    def _batches_before(self, limit: int | None) -> int:
        """How many batches end before the offset `limit`."""
        if limit is None or limit >= self.end_offset:
            return len(self._data)
        return bisect_left(self._last_offsets, limit)

    def _first_batch(self, offset: int) -> int:
        if not self.start_offset <= offset <= self.end_offset:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition}: offset {offset} is outside [{self.start_offset}, {self.end_offset}]",
            )
        return bisect_left(self._last_offsets, offset)

    def _bytes_before(self, batch: int) -> int:
        return self._byte_ends[batch] - len(self._data[batch])

    # Looking up

    def offset_for_time(self, timestamp: int) -> TimestampedOffset | None:
        """The first record made at or after `timestamp` (ms); None if there is none (KIP-79)."""
        for raw in self._headers():
            if raw.max_timestamp >= timestamp:
                for message in decode(raw, self.partition, limit=_MOST_DECOMPRESSED):
                    if message.timestamp >= timestamp and message.offset >= self.start_offset:
                        return TimestampedOffset(message.offset, message.timestamp, raw.leader_epoch)
        return None

    def latest_by_time(self) -> TimestampedOffset | None:
        """The record with the highest timestamp, the first of equals (KIP-734); None if there is none."""
        newest = max(self._headers(), key=lambda raw: raw.max_timestamp, default=None)
        if newest is None:
            return None
        message = max(decode(newest, self.partition, limit=_MOST_DECOMPRESSED), key=lambda message: message.timestamp)
        return TimestampedOffset(message.offset, message.timestamp, newest.leader_epoch)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch that `offset` was, or would be, written under; NO_LEADER_EPOCH before the log."""
        return self._epochs.at(offset)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """The largest epoch not above `epoch`, and the offset its records end at (KIP-320)."""
        return self._epochs.end(epoch, self.end_offset)

    # Transactions

    @property
    def open_transactions(self) -> Sequence[int]:
        """The ids of the producers that have one open here, the first to have begun first."""
        return self._transactions.open_producers

    def check_producer_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Raises Refused with INVALID_PRODUCER_EPOCH for a producer that is known with a later epoch."""
        self._producers.check_epoch(producer_id, producer_epoch)

    def next_sequence(self, producer_id: int, producer_epoch: int) -> int:
        """What the producer's next batch here is numbered."""
        return self._producers.next_sequence(producer_id, producer_epoch)

    def last_stable_offset(self, high_watermark: int) -> int:
        """What stands before it is decided (KIP-98), for who has the log up to this high watermark."""
        # Of what retention has taken nothing is undecided.
        return min(high_watermark, max(self._transactions.last_stable_offset(high_watermark), self.start_offset))

    def aborted_transactions(self, offset: int, size: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of those that a reader of `size` bytes from `offset` on must leave out.

        As in Kafka maybe of some behind it too: it looks as far as the next entry in its index.
        """
        if size == 0:
            return []
        bound = self._index.bound(self._bytes_before(self._first_batch(offset)) + size)
        return self._transactions.aborted(offset, self.end_offset if bound is None else bound)

    def check_leader_epoch(self, epoch: int) -> None:
        """Whether a client that knows of leader epoch `epoch` is up to date (KIP-320); NO_LEADER_EPOCH: any will do.

        Raises Refused: FENCED_LEADER_EPOCH for a client behind, UNKNOWN_LEADER_EPOCH for one ahead of this broker.
        """
        if epoch == NO_LEADER_EPOCH or epoch == self.leader_epoch:
            return
        raise Refused(
            ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{self.partition} is in leader epoch {self.leader_epoch}, not {epoch}",
        )

    def _headers(self) -> list[RawBatch]:
        return [raw for data in self._data for raw in split(data, self.partition, self.start_offset)]

    # What an election, retention and an unclean leader do to a log

    def begin_epoch(self, epoch: int) -> None:
        """A leader was elected: what is appended from now on carries `epoch`, which is above all before it."""
        self._epochs.begin(epoch, self.end_offset)

    def delete_before(self, offset: int) -> None:
        """Move the log's start up to `offset`, as retention does; batches wholly before it go.

        Raises Refused with OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        if offset > self.high_watermark:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.partition}: the high watermark is {self.high_watermark}"
            )
        self.start_offset = max(self.start_offset, offset)
        self._epochs.delete_before(self.start_offset)
        gone = bisect_left(self._last_offsets, offset)
        del self._last_offsets[:gone], self._byte_ends[:gone], self._data[:gone]

    def remove_batches(self, places: Container[int]) -> None:
        """Take whole batches out, by their place in `batches()`, as compaction does: all others keep their offsets."""
        kept = [place for place in range(len(self._data)) if place not in places]
        self._last_offsets = [self._last_offsets[place] for place in kept]
        self._data = [self._data[place] for place in kept]
        self._byte_ends = list(accumulate(map(len, self._data)))
        self._index = OffsetIndex()
        for data, end, last_offset in zip(self._data, self._byte_ends, self._last_offsets, strict=True):
            self._index.add(end - len(data), len(data), last_offset)

    def truncate(self, offset: int) -> None:
        """Cut the log off at `offset`, as an unclean election does; batches that reach beyond it go whole.

        What was known of idempotent producers goes too.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise ValueError(f"{self.partition}: {offset} is outside [{self.start_offset}, {self.end_offset}]")
        kept = bisect_left(self._last_offsets, offset)
        del self._last_offsets[kept:], self._byte_ends[kept:], self._data[kept:]
        self.end_offset = offset
        self._epochs.cut_off(offset)
        self._transactions.cut_off(offset)
        self._index.cut_off(offset)
        self._producers.forget()
