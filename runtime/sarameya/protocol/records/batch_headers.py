"""Headers of record batches, read without decoding the records.

`split` iterates over record batches (v2, KIP-98) and message-set entries (v0, v1), so that a position can advance
before decoding, or without it. `batch_codec` and `legacy_records` decode the records.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Callable, Iterator

import google_crc32c
import msgspec

from sarameya.errors import CorruptRecordError, UnsupportedFormatError
from sarameya.model import NO_LEADER_EPOCH, NO_TIMESTAMP, TimestampType, TopicPartition
from sarameya.protocol.records.compression import Codec

# offset int64, length int32, then: v2 leader epoch int32 | v0, v1 crc uint32, then magic int8
_PREFIX = struct.Struct(">qiib")
LOG_OVERHEAD = 12
"""Bytes of offset and length, which the length field does not count."""
V2_HEADER = struct.Struct(">qiibIhiqqqhii")
"""Header of a v2 batch.

Base offset, length, leader epoch, magic, CRC-32C, attributes, last offset delta, base timestamp, max timestamp,
producer id, producer epoch, base sequence, record count.
"""
_CRC = struct.Struct(">I")
_V2_CRC_AT, _V2_CRC_FROM = 17, 21
_LEGACY_CRC_AT, _LEGACY_CRC_FROM = 12, 16
_LEGACY_ATTRIBUTES_AT, _LEGACY_TIMESTAMP_AT = 17, 18
# Smallest length field by magic. In v0 and v1: crc, magic, attributes, (timestamp,) key length, value length.
_SMALLEST = {0: 14, 1: 22, 2: V2_HEADER.size - LOG_OVERHEAD}

_OFFSETS_END = 2**63 - 1
"""Bound for the offsets of a batch: the position after it must be an int64, too."""

_crc32c: Callable[[bytes], int] = google_crc32c.value
if google_crc32c.implementation != "c":
    # aiokafka's function is usually compiled. google-crc32c's fallback takes ten times as long as the decoding.
    from aiokafka.record.util import calc_crc32c

    _crc32c = calc_crc32c
    logging.getLogger(__name__).warning(
        "google-crc32c's compiled half is missing; checking CRCs will be about ten times slower "
        "(install a binary wheel of google-crc32c)"
    )

CODEC_MASK = 0x07
# Constants, since look-ups of enum members are slow, and every batch needs them.
_NO_TIMESTAMP_TYPE, _CREATE_TIME, _LOG_APPEND_TIME = TimestampType
_CODECS = tuple(Codec)
_TIMESTAMP_MASK, _TRANSACTIONAL_MASK, _CONTROL_MASK = 0x08, 0x10, 0x20


class RawBatch(msgspec.Struct, frozen=True, gc=False):
    """Undecoded batch (v2) or message-set entry (v0, v1): its header, and the place of its bytes.

    A msgspec.Struct like `Message`, since there may be as many batches as messages.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    attributes: int
    record_count: int | None
    """Number of records; None in the old formats, whose headers do not state it."""
    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_timestamp: int
    """Base of a v2 batch's timestamp deltas; NO_TIMESTAMP in the old formats."""
    max_timestamp: int
    log: bytes
    """The fetched bytes of the partition. They stay in memory as long as any batch of them does."""
    start: int
    end: int

    @property
    def data(self) -> bytes:
        """Copy of the batch's bytes."""
        return self.log[self.start : self.end]

    @property
    def size_bytes(self) -> int:
        """Size of the batch, on the wire and in the log."""
        return self.end - self.start

    @property
    def next_offset(self) -> int:
        """Position after this batch, even if it is empty, compacted or control-only."""
        return self.last_offset + 1

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL_MASK)

    @property
    def is_compressed(self) -> bool:
        return bool(self.attributes & CODEC_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == 0:
            return _NO_TIMESTAMP_TYPE
        return _LOG_APPEND_TIME if self.attributes & _TIMESTAMP_MASK else _CREATE_TIME


def split(records: bytes, partition: TopicPartition, position: int) -> Iterator[RawBatch]:
    """Yield the whole batches in `records`, in order. A last batch that the fetch's size limit has cut off is left out.

    Args:
        records: Fetched bytes of one partition.
        partition: The partition, for errors.
        position: The requested offset. Errors name it until a batch header has been read.

    Raises:
        CorruptRecordError: A length or an offset is impossible.
        UnsupportedFormatError: The magic is unknown.
    """
    at, size, offset = 0, len(records), position
    while size - at >= _PREFIX.size:
        base_offset, length, _, magic = _PREFIX.unpack_from(records, at)
        if magic not in _SMALLEST:
            raise UnsupportedFormatError(*partition, offset, f"unknown record format (magic {magic})")
        if length < _SMALLEST[magic]:
            raise CorruptRecordError(*partition, offset, f"a batch states a length of {length} bytes")
        end = at + LOG_OVERHEAD + length
        if end > size:
            return
        batch = _v2(records, at, end) if magic == 2 else _legacy(records, at, end)
        if not 0 <= base_offset <= batch.last_offset < _OFFSETS_END:
            problem = f"a batch states the offsets {base_offset} to {batch.last_offset}"
            raise CorruptRecordError(*partition, offset, problem)
        yield batch
        at, offset = end, batch.last_offset + 1


def is_truncated(records: bytes) -> bool:
    """Return whether `records` has bytes, but no whole batch: the batch is larger than the fetch's size limit."""
    if len(records) < LOG_OVERHEAD:
        return bool(records)
    (length,) = struct.unpack_from(">i", records, 8)
    return bool(length + LOG_OVERHEAD > len(records))


def codec_of(raw: RawBatch, partition: TopicPartition) -> Codec:
    """Return the compression of the batch. Raises UnsupportedFormatError if its format does not have the codec."""
    number = raw.attributes & CODEC_MASK
    newest = Codec.ZSTD if raw.magic == 2 else Codec.LZ4  # KIP-110
    if number > newest:
        raise UnsupportedFormatError(
            *partition, raw.base_offset, f"unknown compression codec {number} in a batch of format v{raw.magic}"
        )
    return _CODECS[number]


def crc_matches(raw: RawBatch) -> bool:
    """Return whether the checksum in the header matches the bytes that it covers."""
    if raw.magic == 2:
        at, actual = _V2_CRC_AT, crc32c(raw.log[raw.start + _V2_CRC_FROM : raw.end])
    else:
        at, actual = _LEGACY_CRC_AT, zlib.crc32(memoryview(raw.log)[raw.start + _LEGACY_CRC_FROM : raw.end])
    return bool(_CRC.unpack_from(raw.log, raw.start + at)[0] == actual)


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli), the checksum of v2 batches."""
    return _crc32c(data)


def _v2(log: bytes, start: int, end: int) -> RawBatch:
    (
        base_offset,
        _,
        leader_epoch,
        magic,
        _,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = V2_HEADER.unpack_from(log, start)
    return RawBatch(
        base_offset,
        base_offset + last_offset_delta,
        leader_epoch,
        magic,
        attributes,
        record_count,
        producer_id,
        producer_epoch,
        base_sequence,
        base_timestamp,
        max_timestamp,
        log,
        start,
        end,
    )


def _legacy(log: bytes, start: int, end: int) -> RawBatch:
    # The offset of a compressed entry is that of its last message. Its first offset is known only after decoding.
    offset, _, _, magic = _PREFIX.unpack_from(log, start)
    timestamp = struct.unpack_from(">q", log, start + _LEGACY_TIMESTAMP_AT)[0] if magic == 1 else NO_TIMESTAMP
    return RawBatch(
        base_offset=offset,
        last_offset=offset,
        leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        attributes=log[start + _LEGACY_ATTRIBUTES_AT],
        record_count=None,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=timestamp,
        log=log,
        start=start,
        end=end,
    )
