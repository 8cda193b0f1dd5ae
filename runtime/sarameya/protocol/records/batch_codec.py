"""Conversion of record batches to messages and back. The only module that uses the compiled decoder for that.

The decoder is `aiokafka.record` (compiled; 20 times as fast as a pure-Python decoder). It must not get bytes that could
harm it. So `batch_headers` checks lengths, magic and codec first, and the CRC is checked before any record is read.
This module also bounds the decompression, and passes the result to the decoder as an uncompressed batch. Each exception
of the decoder becomes a RecordError that names topic, partition and offset.

`split` reads batch headers only. `decode` converts one batch to messages, `decode_columns` converts it to columns, and
`build` makes a batch (v2, KIP-98).

Rules that are easily broken:

- The record batches of a fetched partition share one buffer (`RawBatch.log`), which stays in memory until the last of
  them is released. Test: `tests/protocol/test_records.py::test_batches_share_the_bytes_of_their_log`.
- The compiled decoder reads varints up to 20 bytes beyond its buffer's end. `_uncompressed` provides these bytes; the
  position at which the decoder stops shows whether it has used them. Test:
  `tests/protocol/test_records.py::test_decoder_never_reads_beyond_hostile_bytes`.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter, lt
from typing import Any, TypeVar

from aiokafka.errors import CorruptRecordException

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

try:
    if os.environ.get("AIOKAFKA_NO_EXTENSIONS"):
        raise ImportError("aiokafka's compiled modules are disabled (AIOKAFKA_NO_EXTENSIONS)")
    # Not from `aiokafka.record.default_records`, which would choose the same classes but imports asyncio.
    from aiokafka.record._crecords import DefaultRecordBatch, DefaultRecordBatchBuilder
except ImportError:
    from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

    logging.getLogger(__name__).warning(
        "aiokafka's compiled record decoder is missing; decoding will be about twenty times slower "
        "(install a binary wheel of aiokafka, and unset AIOKAFKA_NO_EXTENSIONS)"
    )

_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT, _ATTRIBUTES_END = 21, 23
# One byte each: length, attributes, two deltas, key length, value length, header count.
_SMALLEST_RECORD = 7
# The decoder looks for the end of a varint without checking the end of its buffer. It checks that after at most two
# varints of ten bytes each. So this many bytes after a batch must belong to the same allocation. Their content does not
# matter: the decoder's position is then after the end of the batch, and it reports that.
_READ_BEYOND = 32
_PADDING = bytes(_READ_BEYOND)

# A constant, since the look-up of an enum's member takes as long as the decoding of a record.
_NONE = Codec.NONE

# The decoder's records and Message use the same names.
_FIELDS = attrgetter("offset", "timestamp", "key", "value", "headers")


def decode(
    raw: RawBatch, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1
) -> list[Message]:
    """Decode one batch to messages, in offset order, including control records (see `RawBatch.is_control`).

    Each error names topic, partition and the first offset of the batch.

    Args:
        raw: The batch.
        partition: Topic and partition, for the messages and for errors.
        check_crc: Compare the checksum first.
        limit: Bytes to which the batch may be decompressed.

    Raises:
        CorruptRecordError: The CRC or the structure is wrong.
        UnsupportedFormatError: The compression codec is unknown.
        DecompressionLimitError: The batch decompresses to more than `limit`, or to too many small records or headers.
    """
    return _guarded(_messages, raw, partition, check_crc, limit)


def decode_slices(
    raw: RawBatch, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1
) -> Slices:
    """Decode one batch as `decode` does, but step by step, in lists of at most a thousand messages.

    A batch of a few kilobytes may hold millions of small messages. A batch in an old format is one list. Raises as
    `decode` does, here or from the iterator when it reaches the fault.
    """
    if raw.magic != 2:
        return Slices(0, iter([decode(raw, partition, check_crc=check_crc, limit=limit)]))
    size, lists = _guarded(_start_slices, raw, partition, check_crc, limit)
    return Slices(size, iter(lambda: _guarded(lambda *_: next(lists, []), raw, partition, False, limit), []))


class Slices:
    """Iterator over the messages of one batch, list by list."""

    def __init__(self, size_bytes: int, lists: Iterator[list[Message]]) -> None:
        self.size_bytes = size_bytes
        """Memory that the iterator holds in addition to the fetched bytes."""
        self._lists = lists

    def __iter__(self) -> Iterator[list[Message]]:
        return self._lists

    def __next__(self) -> list[Message]:
        return next(self._lists)


def decode_columns(
    raw: RawBatch, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1
) -> MessageColumns:
    """Decode one batch to columns, without message objects. Raises as `decode` does."""
    return _guarded(_columns, raw, partition, check_crc, limit)


def uncompressed(
    raw: RawBatch, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1
) -> memoryview:
    """Return a v2 batch (header and records) without compression. Raises as `decode` does.

    The size of the records is checked, but not their structure.
    """

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
        # The error shows the bytes. Kafka's own clients always write UTF-8.
        raise CorruptRecordError(
            *partition,
            raw.base_offset,
            f"the key of a record's header is not UTF-8: {error.object[:40]!r} (in the batch up to offset "
            f"{raw.last_offset}; to go on, set the group's offset after it)",
        ) from error
    except (
        CorruptRecordException,
        ValueError,
        IndexError,
        struct.error,
        # For a length near 2**63 the decoder's bound check overflows, and the allocation then fails.
        OverflowError,
        MemoryError,
    ) as error:
        problem = str(error) or type(error).__name__
        raise CorruptRecordError(*partition, raw.base_offset, f"broken record structure: {problem}") from error


def _messages(raw: RawBatch, partition: TopicPartition, check_crc: bool, limit: int) -> list[Message]:
    if raw.magic != 2:
        return decode_legacy(raw, partition, check_crc, limit)
    records = DefaultRecordBatch(_checked(raw, partition, limit))
    return _make_messages(records, raw.record_count or 0, raw, partition, raw.base_offset - 1)


def _start_slices(raw: RawBatch, partition: TopicPartition, _: bool, limit: int) -> tuple[int, Iterator[list[Message]]]:
    """Return the bytes held for the decompressed batch, and its lists of messages.

    Faults of the whole batch are raised here, not by the iterator.
    """
    plain = _plain(raw, partition, limit)
    lists = _slices(plain, slices(plain[V2_HEADER.size :], raw.record_count or 0, limit), raw, partition)
    return len(plain) if raw.is_compressed else 0, lists


def _slices(
    plain: memoryview, sizes: Iterable[int], raw: RawBatch, partition: TopicPartition
) -> Iterator[list[Message]]:
    records = chain(DefaultRecordBatch(plain))  # one iterator for all slices: the decoder can be iterated only once
    last_offset = raw.base_offset - 1
    for size in sizes:
        messages = _make_messages(islice(records, size), size, raw, partition, last_offset)
        last_offset = messages[-1].offset
        yield messages
    if next(records, None) is not None:
        raise ValueError("the batch has more records than its header states")


def _make_messages(
    records: Iterable[Any], count: int, raw: RawBatch, partition: TopicPartition, last_offset: int
) -> list[Message]:
    """Make messages of the next `count` records. Their offsets must ascend, and be above `last_offset`."""
    topic, number = partition
    kind, epoch = raw.timestamp_type, raw.leader_epoch
    offset = last_offset
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
        if offset < (offset := record.offset)  # drops offsets that do not ascend; the count below is then wrong
    ]
    if len(messages) != count:
        raise ValueError("an offset is not higher than the previous offset")
    if offset > raw.last_offset:
        raise ValueError(f"offset {offset} is after the batch's last offset, {raw.last_offset}")
    return messages


def _columns(raw: RawBatch, partition: TopicPartition, check_crc: bool, limit: int) -> MessageColumns:
    if raw.magic == 2:
        rows = map(_FIELDS, DefaultRecordBatch(_checked(raw, partition, limit)))
    else:
        rows = map(_FIELDS, decode_legacy(raw, partition, check_crc, limit))
    offsets, timestamps, keys, values, headers = tuple(zip(*rows, strict=True)) or ((),) * 5
    if raw.magic == 2:
        if not all(map(lt, chain((raw.base_offset - 1,), offsets), offsets)):
            raise ValueError("an offset is not higher than the previous offset")
        if offsets and offsets[-1] > raw.last_offset:
            raise ValueError(f"offset {offsets[-1]} is after the batch's last offset, {raw.last_offset}")
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
    """Return a v2 batch without compression. Raises TooLargeError if its records would exceed their allowance."""
    plain = _plain(raw, partition, limit)
    check_records(plain[V2_HEADER.size :], raw.record_count or 0, limit)
    return plain


def _plain(raw: RawBatch, partition: TopicPartition, limit: int) -> memoryview:
    """Return a v2 batch without compression. Raises ValueError if it is too short for its record count."""
    plain = _uncompressed(raw, partition, limit)
    count = raw.record_count or 0
    if not 0 <= count * _SMALLEST_RECORD <= len(plain) - V2_HEADER.size:
        raise ValueError(f"{len(plain)} bytes are too few for {count} records")
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
    """Return an upper bound for the bytes of an uncompressed v2 batch with only this record."""
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
