"""Conversion of record batches, as the log holds them, to messages and back. One seam around the compiled decoder.

The decoder is `aiokafka.record` (compiled; 20 times as fast as a pure-Python one). It gets nothing that a broker's
bytes could abuse. `batch_headers` checks lengths, magic and codec first, and the CRC is checked before anything is
read. This module bounds the decompression and passes the result on as uncompressed. Each exception of the decoder
becomes a RecordError that names topic, partition and offset.

`split` reads batch headers only. `decode` converts one batch to messages, `decode_columns` converts it to columns, and
`build` makes a batch (v2, KIP-98).

Rules that are easily broken:

- Record batches are views of one buffer for each partition (`RawBatch.log`), which lives as long as the last of them.
  Test: `tests/protocol/test_records.py::test_batches_share_the_bytes_that_they_are_in`.
- The compiled decoder reads varints up to 20 bytes beyond its buffer's end. `_uncompressed` provides these bytes; where
  the decoder stops shows whether it has used them. Test:
  `tests/protocol/test_records.py::test_decoder_stays_within_hostile_bytes`.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter, lt
from typing import Any, TypeVar

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from sarameya.errors import CorruptRecordError, DecompressionLimitError, RecordError
from sarameya.message_batch import MessageColumns
from sarameya.model import NO_LEADER_EPOCH, Headers, Message, TopicPartition
from sarameya.protocol.records.batch_headers import (
    CODEC_MASK,
    LOG_OVERHEAD,
    V2_HEADER,
    RawBatch,
    codec_of,
    crc32c,
    crc_matches,
    is_truncated,
    split,
)
from sarameya.protocol.records.compression import BrokenDataError, Codec, TooLargeError, compress, decompress
from sarameya.protocol.records.legacy_records import decode_legacy
from sarameya.protocol.records.record_costs import check_records, slices

__all__ = [
    "RawBatch",
    "build",
    "crc32c",
    "crc_matches",
    "decode",
    "decode_columns",
    "decode_slices",
    "estimated_size",
    "is_truncated",
    "split",
]

_T = TypeVar("_T")

if "_crecords" not in DefaultRecordBatch.__module__:
    logging.getLogger(__name__).warning(
        "aiokafka's compiled record decoder is missing; decoding will be about twenty times slower "
        "(install a binary wheel of aiokafka, and unset AIOKAFKA_NO_EXTENSIONS)"
    )

_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT, _ATTRIBUTES_END = 21, 23
# A byte each: length, attributes, two deltas, key length, value length, header count.
_SMALLEST_RECORD = 7
# The decoder searches for the end of a varint without checking the end of its buffer. It checks that only after at most
# two varints of ten bytes each, so this many bytes after a batch must belong to us. Their content does not matter: the
# decoder then stands behind the end of the batch, and reports that.
_READ_BEYOND = 32
_PADDING = bytes(_READ_BEYOND)

# Looked up once: an enum's members take as long to look up as a record to decode.
_NONE = Codec.NONE

# The decoder's records and Message use the same names.
_FIELDS = attrgetter("offset", "timestamp", "key", "value", "headers")


def decode(
    raw: RawBatch, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1
) -> list[Message]:
    """Decode one batch to messages, in offset order, including control records (see `RawBatch.is_control`).

    Args:
        raw: The batch.
        partition: Topic and partition, for the messages and for errors.
        check_crc: Compare the checksum first.
        limit: Bytes to which the batch may be decompressed.

    Raises:
        CorruptRecordError: The CRC or the structure is wrong.
        UnsupportedFormatError: The compression codec is unknown.
        DecompressionLimitError: The batch decompresses to more than `limit`. Each error names topic, partition and the
            first offset of the batch.
    """
    return _guarded(_messages, raw, partition, check_crc, limit)


def decode_slices(
    raw: RawBatch, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1
) -> Slices:
    """Decode one batch like `decode`, in lists of at most a thousand messages.

    A batch of a few kilobytes may hold millions of small messages. The exceptions are those of `decode`; they are
    raised here, or by the iterator when it reaches the fault.
    """
    if raw.magic != 2:
        return Slices(0, iter([decode(raw, partition, check_crc=check_crc, limit=limit)]))
    size, read = _guarded(_begin_slices, raw, partition, check_crc, limit)
    return Slices(size, iter(lambda: _guarded(lambda *_: next(read, []), raw, partition, False, limit), []))


class Slices:
    """An iterator over the messages of one batch, list by list.

    `size_bytes` is the memory that the iterator holds beside the fetched bytes.
    """

    def __init__(self, size_bytes: int, lists: Iterator[list[Message]]) -> None:
        self.size_bytes = size_bytes
        self._lists = lists

    def __iter__(self) -> Iterator[list[Message]]:
        return self._lists

    def __next__(self) -> list[Message]:
        return next(self._lists)


def decode_columns(
    raw: RawBatch, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1
) -> MessageColumns:
    """Decode one batch to columns: no message object is made before it is needed. Raises as `decode` does."""
    return _guarded(_columns, raw, partition, check_crc, limit)


def uncompressed(
    raw: RawBatch, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1
) -> memoryview:
    """Return a v2 batch without compression, header first, records unchecked. Raises as `decode` does."""

    def read(raw: RawBatch, partition: TopicPartition, _: bool, limit: int) -> memoryview:
        return _checked(raw, partition, limit)

    return _guarded(read, raw, partition, check_crc, limit)


def _guarded(
    read: Callable[[RawBatch, TopicPartition, bool, int], _T],
    raw: RawBatch,
    partition: TopicPartition,
    check_crc: bool,
    limit: int,
) -> _T:
    """Check the CRC, call `read`, and convert each of its exceptions to a RecordError."""
    if check_crc and not crc_matches(raw):
        raise CorruptRecordError(*partition, raw.base_offset, "the CRC does not match the bytes")
    try:
        return read(raw, partition, check_crc, limit)
    except RecordError:
        raise
    except TooLargeError:
        raise DecompressionLimitError(
            *partition,
            raw.base_offset,
            f"the batch decompresses to more than {limit} bytes (fetch_max_decompressed_bytes), "
            "or to too many small records or headers",
        ) from None
    except BrokenDataError as error:
        raise CorruptRecordError(*partition, raw.base_offset, str(error)) from error
    except UnicodeDecodeError as error:
        # Kafka's own clients write UTF-8 only. The error shows the bytes.
        raise CorruptRecordError(
            *partition,
            raw.base_offset,
            f"the key of a record's header is no UTF-8: {error.object[:40]!r} (in the batch up to offset "
            f"{raw.last_offset}; to go on, set the group's offset behind it)",
        ) from error
    except (
        CorruptRecordException,
        ValueError,
        IndexError,
        struct.error,
        # The decoder's own bound check overflows for a length near 2**63; allocating that much then fails.
        OverflowError,
        MemoryError,
    ) as error:
        problem = str(error) or type(error).__name__
        raise CorruptRecordError(*partition, raw.base_offset, f"broken record structure: {problem}") from error


def _messages(raw: RawBatch, partition: TopicPartition, check_crc: bool, limit: int) -> list[Message]:
    if raw.magic != 2:
        return decode_legacy(raw, partition, check_crc, limit)
    records = DefaultRecordBatch(_checked(raw, partition, limit))
    return _made(records, raw.record_count or 0, raw, partition, raw.base_offset - 1)


def _begin_slices(raw: RawBatch, partition: TopicPartition, _: bool, limit: int) -> tuple[int, Iterator[list[Message]]]:
    """Return the bytes held for the decompressed batch, and its lists of messages.

    Faults that concern the whole batch are raised here, not by the iterator.
    """
    plain = _plain(raw, partition, limit)
    made = _slices(plain, slices(plain[V2_HEADER.size :], raw.record_count or 0, limit), raw, partition)
    return len(plain) if raw.is_compressed else 0, made


def _slices(
    plain: memoryview, sizes: Iterable[int], raw: RawBatch, partition: TopicPartition
) -> Iterator[list[Message]]:
    records, behind = chain(DefaultRecordBatch(plain)), raw.base_offset - 1  # The decoder can be iterated only once.
    for size in sizes:
        messages = _made(islice(records, size), size, raw, partition, behind)
        behind = messages[-1].offset
        yield messages
    if next(records, None) is not None:
        raise ValueError("there are more records than the batch counts")


def _made(records: Iterable[Any], count: int, raw: RawBatch, partition: TopicPartition, behind: int) -> list[Message]:
    """Make messages of the next `count` records. Their offsets must rise, starting above `behind`."""
    topic, number = partition
    kind, epoch = raw.timestamp_type, raw.leader_epoch
    offset = behind
    messages = [
        Message(
            topic,
            number,
            offset,
            record.timestamp,
            kind,
            record.key,
            record.value,
            tuple(headers) if (headers := record.headers) else (),
            epoch,
        )
        for record in records
        if offset < (offset := record.offset)  # skips offsets that do not rise; the count below finds them missing
    ]
    if len(messages) != count:
        raise ValueError("an offset is not higher than the one before")
    if offset > raw.last_offset:
        raise ValueError(f"offset {offset} is behind the batch's last, {raw.last_offset}")
    return messages


def _columns(raw: RawBatch, partition: TopicPartition, check_crc: bool, limit: int) -> MessageColumns:
    if raw.magic == 2:
        rows = map(_FIELDS, DefaultRecordBatch(_checked(raw, partition, limit)))
    else:
        rows = map(_FIELDS, decode_legacy(raw, partition, check_crc, limit))
    offsets, timestamps, keys, values, headers = tuple(zip(*rows, strict=True)) or ((),) * 5
    if raw.magic == 2:
        if not all(map(lt, chain((raw.base_offset - 1,), offsets), offsets)):
            raise ValueError("an offset is not higher than the one before")
        if offsets and offsets[-1] > raw.last_offset:
            raise ValueError(f"offset {offsets[-1]} is behind the batch's last, {raw.last_offset}")
        headers = tuple(map(tuple, headers)) if any(headers) else ((),) * len(headers)
    return MessageColumns(
        topic=partition.topic,
        partition=partition.partition,
        timestamp_type=raw.timestamp_type,
        leader_epoch=raw.leader_epoch,
        offsets=offsets,
        timestamps=timestamps,
        keys=keys,
        values=values,
        headers=headers,
    )


def _checked(raw: RawBatch, partition: TopicPartition, limit: int) -> memoryview:
    """Return a v2 batch without compression whose records and headers stay within their allowance."""
    plain = _plain(raw, partition, limit)
    check_records(plain[V2_HEADER.size :], raw.record_count or 0, limit)
    return plain


def _plain(raw: RawBatch, partition: TopicPartition, limit: int) -> memoryview:
    """Return a v2 batch without compression that is long enough for its record count."""
    plain = _uncompressed(raw, partition, limit)
    count = raw.record_count or 0
    if not 0 <= count * _SMALLEST_RECORD <= len(plain) - V2_HEADER.size:
        raise ValueError(f"{count} records cannot be in {len(plain)} bytes")
    return plain


def _uncompressed(raw: RawBatch, partition: TopicPartition, limit: int) -> memoryview:
    """Return a v2 batch marked as uncompressed, followed by the padding that the decoder may read."""
    codec = codec_of(raw, partition)
    if codec is not _NONE:
        header = bytearray(raw.log[raw.start : raw.start + V2_HEADER.size])
        _ATTRIBUTES.pack_into(header, _ATTRIBUTES_AT, raw.attributes & ~CODEC_MASK)
        body = decompress(codec, raw.log[raw.start + V2_HEADER.size : raw.end], limit)
        return memoryview(b"".join((header, body, _PADDING)))[:-_READ_BEYOND]
    if len(raw.log) - raw.end < _READ_BEYOND:
        return memoryview(raw.data + _PADDING)[:-_READ_BEYOND]
    return memoryview(raw.log)[raw.start : raw.end]


def estimated_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the upper bound of the bytes of an uncompressed v2 batch with this record alone."""
    return int(DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, list(headers)))


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
    """Build one v2 batch as a producer sends it.

    Args:
        records: (timestamp in ms, key, value, headers) of each record.
        base_offset: Offset of the first record.
        codec: Compression.
        producer_id: Id of an idempotent producer (KIP-98), -1 for none.
        producer_epoch: Epoch of that id.
        base_sequence: Sequence number of the first record.
        leader_epoch: Epoch of the partition's leader.
        transactional: Mark the batch as part of a transaction.
    """
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
    body = compress(codec, plain[V2_HEADER.size :])
    attributes = struct.unpack_from(">h", plain, _ATTRIBUTES_AT)[0] | codec
    checked = struct.pack(">h", attributes) + plain[_ATTRIBUTES_END : V2_HEADER.size] + body
    length = _ATTRIBUTES_AT - LOG_OVERHEAD + len(checked)
    prefix = struct.pack(">qiib", base_offset, length, leader_epoch, 2)
    return prefix + struct.pack(">I", crc32c(checked)) + checked
