"""Interpretation of a partition's part of a fetch response, without a broker."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse

from sarameya.error_codes import ErrorCode
from sarameya.errors import CorruptRecordError, DecompressionLimitError, TopicAuthorizationError
from sarameya.model import TopicPartition
from sarameya.protocol.fetch.fetch_cursor import Failed, FetchCursor, Nothing, OutOfRange, Records, Redispatch
from sarameya.protocol.records.batch_codec import build, crc32c
from sarameya.protocol.records.compression import Codec

TP = TopicPartition("t", 0)
_CONTROL, _TRANSACTIONAL = 0x20, 0x10


def part(records: bytes = b"", code: int = 0, high_water_mark: int = 100, aborted: Any = None) -> Any:
    part_class = FetchResponse.FetchableTopicResponse.PartitionData
    return part_class(
        partition_index=0,
        error_code=code,
        high_watermark=high_water_mark,
        log_start_offset=0,
        aborted_transactions=[part_class.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted or ()],
        records=records,
    )


def batch(base: int, count: int = 1, **options: Any) -> bytes:
    return build([(0, b"k", b"v", ())] * count, base_offset=base, **options)


def compacted(base: int, last: int, count: int) -> bytes:
    """Return a batch after compaction: `count` records remain of the offsets base..last."""
    data = bytearray(batch(base, count))
    struct.pack_into(">i", data, 23, last - base)
    return bytes(data)


def control(base: int, producer_id: int, kind: int) -> bytes:
    marker = struct.pack(">hh", 0, kind)
    data = bytearray(build([(0, marker, b"", ())], base_offset=base, producer_id=producer_id, producer_epoch=0))
    struct.pack_into(">h", data, 21, _CONTROL | _TRANSACTIONAL)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def test_position_follows_the_last_batch() -> None:
    cursor = FetchCursor(TP, 10)
    outcome = cursor.take(part(batch(10, 3) + batch(13, 2)), 10)
    assert isinstance(outcome, Records)
    assert [b.base_offset for b in outcome.batches] == [10, 13]
    assert cursor.position == 15
    assert cursor.high_water_mark == 100


@pytest.mark.parametrize("count", [0, 1, 3])
def test_position_moves_past_a_compacted_batch(count: int) -> None:
    cursor = FetchCursor(TP, 10)
    cursor.take(part(compacted(10, 29, count)), 10)
    assert cursor.position == 30


def test_batch_before_the_position_is_left_out() -> None:
    cursor = FetchCursor(TP, 15)
    outcome = cursor.take(part(batch(10, 3) + batch(13, 4)), 15)
    assert isinstance(outcome, Records)
    assert [b.base_offset for b in outcome.batches] == [13]
    assert cursor.position == 17


def test_fetch_without_a_batch_at_the_position_is_redispatched() -> None:
    cursor = FetchCursor(TP, 15)
    outcome = cursor.take(part(batch(10, 3)), 15)
    assert outcome == Redispatch("the broker sent no batch that reaches offset 15")
    assert cursor.position == 15


def test_records_have_the_requested_position() -> None:
    outcome = FetchCursor(TP, 15).take(part(batch(13, 4)), 15)
    assert isinstance(outcome, Records)
    assert outcome.position == 15


def test_batch_at_the_highest_offset_is_corrupt() -> None:
    """The position after such a batch could not be requested."""
    last = 2**63 - 2
    outcome = FetchCursor(TP, last).take(part(batch(last)), last)
    assert isinstance(outcome, Records)
    outcome = FetchCursor(TP, last).take(part(batch(last + 1)), last)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, CorruptRecordError)


def test_response_for_another_position_is_ignored() -> None:
    cursor = FetchCursor(TP, 20)
    assert cursor.take(part(batch(10, 3)), 10) == Nothing()
    assert cursor.position == 20
    assert cursor.high_water_mark == -1


def test_empty_response_updates_only_the_high_watermark() -> None:
    cursor = FetchCursor(TP, 20)
    assert cursor.take(part(high_water_mark=20), 20) == Nothing()
    assert cursor.high_water_mark == 20


def test_truncated_last_batch_is_left_to_the_next_fetch() -> None:
    cursor = FetchCursor(TP, 10)
    outcome = cursor.take(part(batch(10, 3) + batch(13, 2)[:-5]), 10)
    assert isinstance(outcome, Records)
    assert cursor.position == 13


def test_truncated_first_batch_is_corrupt() -> None:
    outcome = FetchCursor(TP, 10).take(part(batch(10, 3)[:-5]), 10)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, CorruptRecordError)
    assert "less than one whole batch" in str(outcome.error)


def test_good_batches_before_a_broken_one_are_delivered_first() -> None:
    cursor = FetchCursor(TP, 10)
    broken = bytearray(batch(13))
    struct.pack_into(">i", broken, 8, 3)
    outcome = cursor.take(part(batch(10, 3) + bytes(broken)), 10)
    assert isinstance(outcome, Records)
    assert cursor.position == 13
    outcome = cursor.take(part(bytes(broken)), 13)
    assert isinstance(outcome, Failed)
    assert cursor.position == 13


def test_overlapping_batch_is_not_delivered_twice() -> None:
    cursor = FetchCursor(TP, 10)
    outcome = cursor.take(part(batch(10, 3) + batch(12, 3)), 10)
    assert isinstance(outcome, Records)
    assert [b.base_offset for b in outcome.batches] == [10]
    outcome = FetchCursor(TP, 12).take(part(batch(10, 1) + batch(10, 3)), 12)
    assert isinstance(outcome, Failed)
    assert "before the end of the previous batch" in str(outcome.error)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_fetch_that_the_broker_cannot_serve_is_redispatched(code: ErrorCode) -> None:
    outcome = FetchCursor(TP, 10).take(part(code=code), 10)
    assert isinstance(outcome, Redispatch)
    assert code.name in outcome.cause


def test_out_of_range_is_left_to_the_policy() -> None:
    assert FetchCursor(TP, 10).take(part(code=ErrorCode.OFFSET_OUT_OF_RANGE), 10) == OutOfRange()


def test_other_codes_fail_the_claim_by_name() -> None:
    outcome = FetchCursor(TP, 10).take(part(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), 10)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, TopicAuthorizationError)
    outcome = FetchCursor(TP, 10).take(part(code=999), 10)
    assert isinstance(outcome, Failed)
    assert "error code 999" in str(outcome.error)


def test_aborted_transaction_is_hidden_until_its_marker() -> None:
    def transactional(base: int, producer: int) -> bytes:
        return batch(base, 1, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)

    records = (
        transactional(10, 1)  # aborted
        + transactional(11, 2)  # committed
        + batch(12)  # no transaction at all
        + transactional(13, 1)  # aborted
        + control(14, 1, 0)  # ABORT of 1
        + control(15, 2, 1)  # COMMIT of 2
        + transactional(16, 1)  # a new transaction of 1, committed
    )
    cursor = FetchCursor(TP, 10)
    outcome = cursor.take(part(records, aborted=[(1, 10)]), 10)
    assert isinstance(outcome, Records)
    assert outcome.aborted == {10, 13}
    assert [b.base_offset for b in outcome.batches if b.is_control] == [14, 15]
    assert cursor.position == 17


def test_later_aborted_transaction_hides_nothing_before_it() -> None:
    first = batch(10, 1, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    second = batch(20, 1, producer_id=1, producer_epoch=0, base_sequence=1, transactional=True)
    outcome = FetchCursor(TP, 10).take(part(first + control(11, 1, 1) + second, aborted=[(1, 20)]), 10)
    assert isinstance(outcome, Records)
    assert outcome.aborted == {20}


def test_marker_with_a_large_decompressed_size_is_refused() -> None:
    marker = bytearray(
        build(
            [(0, struct.pack(">hh", 0, 0), b"\x00" * 100_000, ())],
            base_offset=10,
            producer_id=1,
            producer_epoch=0,
            codec=Codec.ZSTD,
        )
    )
    struct.pack_into(">h", marker, 21, _CONTROL | _TRANSACTIONAL | Codec.ZSTD)
    struct.pack_into(">I", marker, 17, crc32c(bytes(marker[21:])))
    outcome = FetchCursor(TP, 10).take(part(bytes(marker), aborted=[(1, 10)]), 10)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, DecompressionLimitError)
