"""The log of a partition: offsets, reads, lookups, idempotent producers, retention and truncation."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.embedded.log.epoch_cache import EpochEnd
from sarameya.embedded.log.partition_log import PartitionLog, TimestampedOffset
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition
from sarameya.protocol.records.batch_codec import build, decode, split
from sarameya.protocol.records.compression import Codec

T0 = TopicPartition("orders", 0)


def batch(*values: bytes, timestamp: int = 1_000, codec: Codec = Codec.NONE) -> bytes:
    return build([(timestamp, None, value, ()) for value in values], codec=codec)


def from_producer(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> bytes:
    return build(
        [(1_000, None, b"v", ())] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


def values(log: PartitionLog, offset: int, max_bytes: int = 2**31) -> list[tuple[int, bytes | None]]:
    return [
        (message.offset, message.value)
        for raw in split(log.read(offset, max_bytes), T0, offset)
        for message in decode(raw, T0)
    ]


def refused(log: PartitionLog, data: bytes) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        log.append(data)
    return caught.value.code


class TestAppend:
    def test_batches_get_consecutive_offsets_and_keep_their_crc(self) -> None:
        log = PartitionLog(T0)
        assert (log.append(batch(b"a", b"b")).base_offset, log.append(batch(b"c")).base_offset) == (0, 2)
        assert values(log, 0) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert (log.start_offset, log.end_offset, log.high_watermark) == (0, 3, 3)

    def test_batch_has_the_leader_epoch_of_its_append(self) -> None:
        log = PartitionLog(T0, leader_epoch=4)
        log.append(batch(b"a"))
        log.begin_epoch(9)
        log.append(batch(b"b"))
        assert [raw.leader_epoch for raw in split(log.read(0, 2**31), T0, 0)] == [4, 9]

    @pytest.mark.parametrize("codec", list(Codec))
    def test_batch_of_every_codec_is_stored_unchanged(self, codec: Codec) -> None:
        log = PartitionLog(T0)
        log.append(batch(b"x" * 500, b"y", codec=codec))
        assert values(log, 0) == [(0, b"x" * 500), (1, b"y")]

    def test_batch_with_a_flipped_bit_is_corrupt(self) -> None:
        broken = bytearray(batch(b"abc"))
        broken[-1] ^= 1
        assert refused(PartitionLog(T0), bytes(broken)) is ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("size", [0, 1, 16, 60, -1])
    def test_truncated_batch_is_corrupt(self, size: int) -> None:
        assert refused(PartitionLog(T0), batch(b"abc")[:size]) is ErrorCode.CORRUPT_MESSAGE

    def test_batch_over_the_limit_is_too_large(self) -> None:
        data = batch(b"x" * 200)
        log = PartitionLog(T0, max_batch_size=len(data) - 1)
        assert refused(log, data) is ErrorCode.MESSAGE_TOO_LARGE
        assert PartitionLog(T0, max_batch_size=len(data)).append(data).base_offset == 0

    def test_two_batches_at_once_are_invalid(self) -> None:
        assert refused(PartitionLog(T0), batch(b"a") + batch(b"b")) is ErrorCode.INVALID_RECORD

    def test_base_offset_set_by_the_producer_is_invalid(self) -> None:
        data = build([(1, None, b"v", ())], base_offset=5)
        assert refused(PartitionLog(T0), data) is ErrorCode.INVALID_RECORD

    def test_old_format_from_a_producer_is_refused(self) -> None:
        body = struct.pack(">bbqii", 1, 0, 1_000, -1, 1) + b"v"
        entry = struct.pack(">qiI", 0, 4 + len(body), 0) + body
        assert refused(PartitionLog(T0), entry) is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT

    def test_refused_batch_leaves_the_log_unchanged(self) -> None:
        log = PartitionLog(T0)
        log.append(batch(b"a"))
        refused(log, batch(b"b")[:-1])
        assert log.end_offset == 1
        assert log.append(batch(b"c")).base_offset == 1

    def test_raw_bytes_are_stored_unchecked_with_their_offsets(self) -> None:
        log = PartitionLog(T0)
        log.append_raw(b"no batch at all", last_offset=4)
        assert log.append(batch(b"a")).base_offset == 5
        assert log.read(2, 10) == b"no batch at all"
        with pytest.raises(ValueError, match="offset 3 is taken"):
            log.append_raw(b"", last_offset=3)


class TestRead:
    def test_read_returns_whole_batches_up_to_the_size(self) -> None:
        log = PartitionLog(T0)
        for value in (b"a", b"b", b"c"):
            log.append(batch(value))
        one = len(log.batches()[0])
        assert values(log, 0, 2 * one) == [(0, b"a"), (1, b"b")]
        assert values(log, 1, 2 * one - 1) == [(1, b"b")]
        assert values(log, 2, one) == [(2, b"c")]

    def test_first_batch_is_returned_even_if_larger(self) -> None:
        log = PartitionLog(T0)
        log.append(batch(b"a" * 100))
        assert values(log, 0, 1) == [(0, b"a" * 100)]
        assert log.read(0, 1, at_least_one=False) == b""

    def test_offset_inside_a_batch_returns_the_whole_batch(self) -> None:
        log = PartitionLog(T0)
        log.append(batch(b"a", b"b", b"c"))
        assert [offset for offset, _ in values(log, 2)] == [0, 1, 2]

    def test_read_at_the_end_is_empty_and_beyond_it_out_of_range(self) -> None:
        log = PartitionLog(T0)
        log.append(batch(b"a"))
        assert log.read(1, 100) == b""
        assert log.readable_bytes(1) == 0
        for offset in (2, -1):
            with pytest.raises(Refused) as caught:
                log.read(offset, 100)
            assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    @given(
        counts=st.lists(st.integers(1, 5), min_size=1, max_size=20),
        deleted=st.integers(0, 50),
        max_bytes=st.integers(0, 2_000),
        data=st.data(),
    )
    def test_read_returns_consecutive_batches_from_the_offset(
        self, counts: list[int], deleted: int, max_bytes: int, data: st.DataObject
    ) -> None:
        log = PartitionLog(T0)
        for count in counts:
            log.append(batch(*[b"v"] * count))
        log.delete_before(min(deleted, log.end_offset))
        offset = data.draw(st.integers(log.start_offset, log.end_offset))
        remaining = [raw.data for raw in split(b"".join(log.batches()), T0, 0) if raw.last_offset >= offset]
        first = remaining[0] if remaining else b""
        expected = b"".join(remaining)[:max_bytes] if len(first) <= max_bytes else first
        assert log.read(offset, max_bytes) == expected
        assert log.readable_bytes(offset) == len(log.read(offset, 2**31))


class TestIdempotence:
    def test_duplicate_batch_keeps_its_first_offset(self) -> None:
        log = PartitionLog(T0)
        log.append(from_producer(0, 2))
        log.append(from_producer(2, 3))
        again = log.append(from_producer(0, 2))
        assert (again.base_offset, again.last_offset) == (0, 1)
        assert log.end_offset == 5

    def test_only_the_last_five_batches_count_as_duplicates(self) -> None:
        log = PartitionLog(T0)
        for sequence in range(6):
            log.append(from_producer(sequence))
        assert log.append(from_producer(1)).base_offset == 1
        assert log.end_offset == 6
        assert refused(log, from_producer(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_sequence_gap_is_out_of_order(self) -> None:
        log = PartitionLog(T0)
        log.append(from_producer(0))
        assert refused(log, from_producer(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_higher_epoch_starts_at_zero_and_fences_the_lower(self) -> None:
        log = PartitionLog(T0)
        log.append(from_producer(0, epoch=0))
        assert refused(log, from_producer(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        log.append(from_producer(0, epoch=1))
        assert refused(log, from_producer(1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert log.end_offset == 2

    def test_sequences_restart_after_the_largest(self) -> None:
        log = PartitionLog(T0)
        log.append(from_producer(2**31 - 2, 3))
        assert log.append(from_producer(1)).base_offset == 3

    def test_producers_are_independent(self) -> None:
        log = PartitionLog(T0)
        log.append(from_producer(0, producer_id=1))
        log.append(from_producer(0, producer_id=2))
        assert log.append(from_producer(1, producer_id=1)).base_offset == 2

    def test_producer_id_without_a_sequence_is_invalid(self) -> None:
        assert refused(PartitionLog(T0), from_producer(-1)) is ErrorCode.INVALID_RECORD


class TestTime:
    @pytest.fixture
    def log(self) -> PartitionLog:
        log = PartitionLog(T0)
        log.append(build([(10, None, b"", ()), (30, None, b"", ())], codec=Codec.GZIP))
        log.append(build([(20, None, b"", ()), (40, None, b"", ()), (40, None, b"", ())]))
        return log

    @pytest.mark.parametrize(
        ("time", "found"),
        [(0, (0, 10)), (10, (0, 10)), (11, (1, 30)), (30, (1, 30)), (31, (3, 40)), (40, (3, 40))],
    )
    def test_time_finds_the_first_record_at_or_after_it(
        self, log: PartitionLog, time: int, found: tuple[int, int]
    ) -> None:
        assert log.offset_for_time(time) == TimestampedOffset(*found, 0)

    def test_time_after_every_record_finds_none(self, log: PartitionLog) -> None:
        assert log.offset_for_time(41) is None

    def test_latest_by_time_is_the_first_of_equals(self, log: PartitionLog) -> None:
        assert log.latest_by_time() == TimestampedOffset(3, 40, 0)
        assert PartitionLog(T0).latest_by_time() is None

    def test_deleted_records_are_not_found(self, log: PartitionLog) -> None:
        log.delete_before(1)
        assert log.offset_for_time(0) == TimestampedOffset(1, 30, 0)


class TestEpochs:
    @pytest.fixture
    def log(self) -> PartitionLog:
        """Offsets 0 and 1 are of epoch 0, 2 of epoch 2, 3 of epoch 6. Epoch 5 has none."""
        log = PartitionLog(T0)
        log.append(batch(b"a", b"b"))
        log.begin_epoch(2)
        log.append(batch(b"c"))
        log.begin_epoch(5)
        log.begin_epoch(6)
        log.append(batch(b"d"))
        return log

    @pytest.mark.parametrize(
        ("epoch", "end"),
        [(-1, (-1, -1)), (0, (0, 2)), (1, (0, 2)), (2, (2, 3)), (5, (2, 3)), (6, (6, 4)), (7, (-1, -1))],
    )
    def test_epoch_ends_where_the_next_starts(self, log: PartitionLog, epoch: int, end: tuple[int, int]) -> None:
        assert log.epoch_end(epoch) == EpochEnd(*end)

    def test_epoch_of_each_offset(self, log: PartitionLog) -> None:
        assert [log.epoch_of(offset) for offset in range(5)] == [0, 0, 2, 6, 6]

    def test_epoch_that_does_not_rise_is_refused(self, log: PartitionLog) -> None:
        with pytest.raises(ValueError, match="epoch 6 is not above 6"):
            log.begin_epoch(6)

    def test_retention_forgets_epochs_before_the_log_start(self, log: PartitionLog) -> None:
        log.delete_before(3)
        assert [log.epoch_end(epoch) for epoch in (0, 2, 6)] == [EpochEnd(0, 3), EpochEnd(2, 3), EpochEnd(6, 4)]
        assert [log.epoch_of(offset) for offset in (2, 3)] == [-1, 6]

    def test_retention_within_an_epoch_moves_its_start(self, log: PartitionLog) -> None:
        log.delete_before(1)
        assert [log.epoch_end(epoch) for epoch in (0, 1, 2)] == [EpochEnd(0, 2), EpochEnd(0, 2), EpochEnd(2, 3)]

    def test_truncation_keeps_the_current_epoch(self, log: PartitionLog) -> None:
        log.truncate(2)
        assert log.leader_epoch == 6
        assert log.epoch_end(2) == EpochEnd(0, 2)
        assert log.append(batch(b"new")).base_offset == 2
        assert log.epoch_of(2) == 6


class TestDeletion:
    def test_retention_moves_the_start_and_drops_whole_batches(self) -> None:
        log = PartitionLog(T0)
        for value in (b"a", b"b"):
            log.append(batch(value, value))
        log.delete_before(3)
        assert (log.start_offset, len(log.batches())) == (3, 1)
        with pytest.raises(Refused):
            log.read(2, 100)
        assert [offset for offset, _ in values(log, 3)] == [2, 3]
        log.delete_before(1)
        assert log.start_offset == 3, "the start never moves back"
        log.delete_before(4)
        assert log.read(4, 100) == b""
        assert log.append(batch(b"c")).base_offset == 4
        assert values(log, 4) == [(4, b"c")]

    def test_retention_cannot_pass_the_end(self) -> None:
        with pytest.raises(Refused):
            PartitionLog(T0).delete_before(1)

    def test_truncation_removes_the_end(self) -> None:
        log = PartitionLog(T0)
        for value in (b"a", b"b", b"c"):
            log.append(batch(value))
        log.truncate(1)
        assert log.end_offset == 1
        assert log.append(batch(b"x")).base_offset == 1
        assert values(log, 0) == [(0, b"a"), (1, b"x")]
        with pytest.raises(ValueError, match="outside"):
            log.truncate(9)

    def test_truncation_lets_a_producer_resend_the_lost_batch(self) -> None:
        log = PartitionLog(T0)
        log.append(from_producer(0))
        log.truncate(0)
        assert log.append(from_producer(0)).base_offset == 0
        assert log.end_offset == 1
