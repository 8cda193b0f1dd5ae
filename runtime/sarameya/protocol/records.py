"""Record batches: bytes as they stand in the log <-> messages. One seam around the compiled decoder.

The decoder is `aiokafka.record` (compiled; 20 x the speed of a pure-Python one). It is trusted with nothing
that a broker's bytes could abuse: lengths, magic and codec are checked here first, the CRC before anything is
read, decompression is bounded by us and its result handed over as uncompressed, and whatever the decoder
raises becomes a RecordError that names topic, partition and offset.

`split` reads batch headers only, so that a position can move on before (or without) decoding;
`decode` turns one batch into messages; `build` makes a batch. Formats: v2 (KIP-98), v1 (KIP-32), v0.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import xxhash
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatch
from aiokafka.record.util import calc_crc32c

from sarameya.errors import CorruptRecordError, DecompressionLimitError, RecordError, UnsupportedFormatError
from sarameya.model import NO_LEADER_EPOCH, NO_TIMESTAMP, Headers, Message, TimestampType, TopicPartition
from sarameya.protocol.compression import BrokenDataError, Codec, TooLargeError, compress, decompress

if "_crecords" not in DefaultRecordBatch.__module__:
    logging.getLogger(__name__).warning(
        "aiokafka's compiled record decoder is missing; decoding will be about twenty times slower "
        "(install a binary wheel of aiokafka, and unset AIOKAFKA_NO_EXTENSIONS)"
    )

# offset int64, length int32, then: v2 leader epoch int32 | v0, v1 crc uint32, then magic int8
_PREFIX = struct.Struct(">qiib")
_V2 = struct.Struct(">qiibIhiqqqhii")
_V2_COUNT_AT = _V2.size - 4
_ATTRIBUTES_AT = 21
_LOG_OVERHEAD = 12
# The smallest v2 record: length, attributes, two deltas, key and value lengths, header count; a byte each.
_V2_SMALLEST_RECORD = 7
_LEGACY_SMALLEST = {0: 14, 1: 22}  # crc, magic, attributes, (timestamp,) key length, value length

_CODEC_MASK, _TIMESTAMP_MASK, _TRANSACTIONAL_MASK, _CONTROL_MASK = 0x07, 0x08, 0x10, 0x20


@attrs.frozen(slots=True)
class RawBatch:
    """One batch (v2) or message-set entry (v0, v1), undecoded: what its header says, and its bytes."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    attributes: int
    record_count: int | None
    """None in the old formats, which do not say."""
    producer_id: int
    producer_epoch: int
    base_sequence: int
    max_timestamp: int
    data: bytes

    @property
    def next_offset(self) -> int:
        """The position behind this batch, also where it is empty, compacted or control-only."""
        return self.last_offset + 1

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType.LOG_APPEND_TIME if self.attributes & _TIMESTAMP_MASK else TimestampType.CREATE_TIME


def split(records: bytes, partition: TopicPartition, position: int) -> Iterator[RawBatch]:
    """The whole batches in `records`, in order; a last one cut off by the fetch's size limit is left out.

    `position` is the offset asked for, named in errors until a header has told a better one.
    Raises CorruptRecordError for a length that cannot be, UnsupportedFormatError for an unknown magic.
    """
    at, size, offset = 0, len(records), position
    while size - at >= _PREFIX.size:
        base_offset, length, _, magic = _PREFIX.unpack_from(records, at)
        if magic not in (0, 1, 2):
            raise UnsupportedFormatError(*partition, offset, f"unknown record format (magic {magic})")
        smallest = _V2.size - _LOG_OVERHEAD if magic == 2 else _LEGACY_SMALLEST[magic]
        if length < smallest:
            raise CorruptRecordError(*partition, offset, f"a batch says it is {length} bytes long")
        end = at + _LOG_OVERHEAD + length
        if end > size:
            return
        data = records[at:end]
        batch = _v2_header(data) if magic == 2 else _legacy_header(data, base_offset, magic)
        if batch.last_offset < batch.base_offset:
            raise CorruptRecordError(*partition, offset, f"a batch ends at {batch.last_offset}, before it begins")
        yield batch
        at, offset = end, batch.next_offset


def is_truncated(records: bytes) -> bool:
    """Whether `records` holds bytes but not one whole batch: the batch is larger than the fetch allowed."""
    if len(records) < _LOG_OVERHEAD:
        return bool(records)
    (length,) = struct.unpack_from(">i", records, 8)
    return bool(length + _LOG_OVERHEAD > len(records))


def decode(
    raw: RawBatch, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1
) -> list[Message]:
    """The messages of one batch, in offset order, control records included (see `RawBatch.is_control`).

    `limit` bounds the decompressed size in bytes. Raises CorruptRecordError, UnsupportedFormatError or
    DecompressionLimitError, each naming topic, partition and the batch's first offset.
    """
    try:
        return (
            _decode_v2(raw, partition, check_crc, limit)
            if raw.magic == 2
            else _decode_legacy(raw, partition, check_crc, limit)
        )
    except RecordError:
        raise
    except TooLargeError:
        raise DecompressionLimitError(
            *partition,
            raw.base_offset,
            f"the batch decompresses to more than {limit} bytes (fetch_max_decompressed_bytes)",
        ) from None
    except BrokenDataError as error:
        raise CorruptRecordError(*partition, raw.base_offset, str(error)) from error
    except (
        CorruptRecordException,
        UnicodeDecodeError,
        ValueError,
        IndexError,
        struct.error,
        OverflowError,
    ) as error:
        raise CorruptRecordError(*partition, raw.base_offset, f"broken record structure: {error}") from error


def build(
    records: Iterable[tuple[int, bytes | None, bytes | None, Headers]],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = NO_LEADER_EPOCH,
    transactional: bool = False,
) -> bytes:
    """One v2 batch of (timestamp ms, key, value, headers) records, as a producer sends it."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=int(transactional),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=2**31 - 1,
    )
    for index, (timestamp, key, value, headers) in enumerate(records):
        builder.append(index, timestamp, key, value, list(headers))
    plain = bytes(builder.build())
    body = compress(codec, plain[_V2.size :])
    attributes = struct.unpack_from(">h", plain, _ATTRIBUTES_AT)[0] | codec
    checked = struct.pack(">h", attributes) + plain[_ATTRIBUTES_AT + 2 : _V2.size] + body
    prefix = struct.pack(">qiib", base_offset, 9 + len(checked), leader_epoch, 2)
    return prefix + struct.pack(">I", crc32c(checked)) + checked


def crc_matches(raw: RawBatch) -> bool:
    """Whether the checksum in the header is that of the bytes it covers."""
    if raw.magic == 2:
        return bool(DefaultRecordBatch(raw.data).validate_crc())
    return _legacy_crc_matches(raw.data)


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), the checksum of v2 batches."""
    return int(calc_crc32c(data))


def _v2_header(data: bytes) -> RawBatch:
    fields = _V2.unpack_from(data)
    base_offset, _, epoch, magic, _, attributes, last_delta, _, max_timestamp = fields[:9]
    producer_id, producer_epoch, base_sequence, count = fields[9:]
    return RawBatch(
        base_offset=base_offset,
        last_offset=base_offset + last_delta,
        leader_epoch=epoch,
        magic=magic,
        attributes=attributes,
        record_count=count,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        max_timestamp=max_timestamp,
        data=data,
    )


def _legacy_header(data: bytes, offset: int, magic: int) -> RawBatch:
    # The offset of a compressed entry is its last message's; where it begins only decoding tells.
    timestamp = struct.unpack_from(">q", data, 18)[0] if magic == 1 else NO_TIMESTAMP
    return RawBatch(
        base_offset=offset,
        last_offset=offset,
        leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        attributes=data[17],
        record_count=None,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        max_timestamp=timestamp,
        data=data,
    )


def _codec(raw: RawBatch, partition: TopicPartition) -> Codec:
    try:
        return Codec(raw.attributes & _CODEC_MASK)
    except ValueError:
        number = raw.attributes & _CODEC_MASK
        raise UnsupportedFormatError(*partition, raw.base_offset, f"unknown compression codec {number}") from None


def _decode_v2(raw: RawBatch, partition: TopicPartition, check_crc: bool, limit: int) -> list[Message]:
    if check_crc and not crc_matches(raw):
        raise CorruptRecordError(*partition, raw.base_offset, "the batch's CRC does not match its bytes")
    count = raw.record_count or 0
    codec = _codec(raw, partition)
    data = raw.data
    if codec is not Codec.NONE:
        body = decompress(codec, data[_V2.size :], limit)
        attributes = struct.pack(">h", raw.attributes & ~_CODEC_MASK)
        data = b"".join((data[:_ATTRIBUTES_AT], attributes, data[_ATTRIBUTES_AT + 2 : _V2.size], body))
    if count < 0 or count * _V2_SMALLEST_RECORD > len(data) - _V2.size:
        raise CorruptRecordError(*partition, raw.base_offset, f"{count} records cannot be in {len(data)} bytes")
    topic, number = partition
    kind, epoch = raw.timestamp_type, raw.leader_epoch
    return [
        Message(topic, number, r.offset, r.timestamp, kind, r.key, r.value, tuple(r.headers), epoch)
        for r in DefaultRecordBatch(data)
    ]


def _decode_legacy(raw: RawBatch, partition: TopicPartition, check_crc: bool, limit: int) -> list[Message]:
    if check_crc and not crc_matches(raw):
        raise CorruptRecordError(*partition, raw.base_offset, "the message's CRC does not match its bytes")
    codec = _codec(raw, partition)
    if codec is Codec.NONE:
        return [_legacy_message(r, raw, partition, r.offset) for r in LegacyRecordBatch(raw.data, raw.magic)]
    value = _legacy_value(raw, partition)
    inner = decompress(codec, _mend_lz4(value) if codec is Codec.LZ4 and raw.magic == 0 else value, limit)
    entries = list(split(inner, partition, raw.base_offset))
    if not entries or any(e.magic != raw.magic or e.attributes & _CODEC_MASK for e in entries):
        raise CorruptRecordError(
            *partition, raw.base_offset, "a compressed message holds no plain messages of its format"
        )
    # v1 counts inner offsets from zero and gives the wrapper the last one (KIP-31); v0 keeps them absolute.
    shift = raw.base_offset - entries[-1].base_offset if raw.magic == 1 else 0
    messages: list[Message] = []
    for entry in entries:
        if check_crc and not crc_matches(entry):
            raise CorruptRecordError(*partition, raw.base_offset, "an inner message's CRC does not match its bytes")
        decoded = LegacyRecordBatch(entry.data, entry.magic)
        messages.extend(_legacy_message(r, raw, partition, r.offset + shift) for r in decoded)
    return messages


def _legacy_message(record: Any, wrapper: RawBatch, partition: TopicPartition, offset: int) -> Message:
    kind = wrapper.timestamp_type
    timestamp = wrapper.max_timestamp if kind is TimestampType.LOG_APPEND_TIME else record.timestamp
    if timestamp is None:
        timestamp = NO_TIMESTAMP
    return Message(*partition, offset, timestamp, kind, record.key, record.value)


def _legacy_crc_matches(data: bytes) -> bool:
    return bool(struct.unpack_from(">I", data, 12)[0] == zlib.crc32(data[16:]))


def _legacy_value(raw: RawBatch, partition: TopicPartition) -> bytes:
    at = 18 + (8 if raw.magic == 1 else 0)
    (key_length,) = struct.unpack_from(">i", raw.data, at)
    at += 4 + max(key_length, 0)
    (length,) = struct.unpack_from(">i", raw.data, at)
    value = raw.data[at + 4 : at + 4 + length]
    if length < 0 or len(value) != length:
        raise CorruptRecordError(*partition, raw.base_offset, "a compressed message's value runs out of it")
    return value


def _mend_lz4(frame: bytes) -> bytes:
    """Kafka 0.8 and 0.9 computed the LZ4 header checksum over the magic too; put the right one in (KIP-57)."""
    return frame[:6] + xxhash.xxh32(frame[4:6]).digest()[2:3] + frame[7:]
