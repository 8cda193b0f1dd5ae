"""Record batches: bytes as they stand in the log <-> messages. One seam around the compiled decoder.

The decoder is `aiokafka.record` (compiled; 20 x the speed of a pure-Python one). It is trusted with nothing
that a broker's bytes could abuse: lengths, magic and codec are checked first (`batches`), the CRC before
anything is read, decompression is bounded by us and its result handed over as uncompressed, and whatever the
decoder raises becomes a RecordError that names topic, partition and offset.

`split` reads batch headers only; `decode` turns one batch into messages, `decode_columns` into columns of what
is in them; `build` makes a batch (v2, KIP-98).
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
from sarameya.protocol.batches import (
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
from sarameya.protocol.compression import BrokenDataError, Codec, TooLargeError, compress, decompress
from sarameya.protocol.legacy_records import decode_legacy
from sarameya.protocol.record_costs import check_records, slices

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
# length, attributes, two deltas, key and value lengths, header count; a byte each
_SMALLEST_RECORD = 7
# The decoder looks for the end of a varint without looking for the end of its buffer, and checks that only after at
# most two of them, of ten bytes each: so many bytes behind a batch must be ours. What they hold is all the same, since
# whatever is decoded from behind the end leaves the decoder there, which it then says.
_READ_BEYOND = 32
_PADDING = bytes(_READ_BEYOND)

# Looked up once: an enum's members take as long to look up as a record to decode.
_NONE = Codec.NONE

# They are called the same in the decoder's records and in a Message.
_FIELDS = attrgetter("offset", "timestamp", "key", "value", "headers")


def decode(
    raw: RawBatch, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1
) -> list[Message]:
    """The messages of one batch, in offset order, control records included (see `RawBatch.is_control`).

    `limit` bounds the decompressed size in bytes. Raises CorruptRecordError, UnsupportedFormatError or
    DecompressionLimitError, each naming topic, partition and the batch's first offset.
    """
    return _guarded(_messages, raw, partition, check_crc, limit)


def decode_slices(
    raw: RawBatch, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1
) -> Slices:
    """The same messages, a thousand at most at a time: a batch of a few kilobytes may hold millions of small ones.

    Raises as `decode` does, here or when it comes to what is wrong.
    """
    if raw.magic != 2:
        return Slices(0, iter([decode(raw, partition, check_crc=check_crc, limit=limit)]))
    size, read = _guarded(_begin_slices, raw, partition, check_crc, limit)
    return Slices(size, iter(lambda: _guarded(lambda *_: next(read, []), raw, partition, False, limit), []))


class Slices:
    """An iterator over the messages of a batch, list by list. `size_bytes`: what it holds in the meantime, beside the
    bytes that were fetched."""

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
    """The same messages, held by field: none is made before it is asked for. Raises as `decode` does."""
    return _guarded(_columns, raw, partition, check_crc, limit)


def uncompressed(
    raw: RawBatch, partition: TopicPartition, *, check_crc: bool = True, limit: int = 2**31 - 1
) -> memoryview:
    """A v2 batch without compression, its header in front, its records not looked into. Raises as `decode`."""

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
    """What `read` makes of a batch, its CRC checked before; all it fails with as a RecordError."""
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
        # Kafka's own clients write nothing else; which bytes they are, is told.
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
    """What can be found out about the whole batch is, before this returns. With how much it was decompressed to."""
    plain = _plain(raw, partition, limit)
    made = _slices(plain, slices(plain[V2_HEADER.size :], raw.record_count or 0, limit), raw, partition)
    return len(plain) if raw.is_compressed else 0, made


def _slices(
    plain: memoryview, sizes: Iterable[int], raw: RawBatch, partition: TopicPartition
) -> Iterator[list[Message]]:
    records, behind = chain(DefaultRecordBatch(plain)), raw.base_offset - 1  # it may be asked for an iterator once
    for size in sizes:
        messages = _made(islice(records, size), size, raw, partition, behind)
        behind = messages[-1].offset
        yield messages
    if next(records, None) is not None:
        raise ValueError("there are more records than the batch counts")


def _made(records: Iterable[Any], count: int, raw: RawBatch, partition: TopicPartition, behind: int) -> list[Message]:
    """The next `count` records of a batch, whose offsets must rise from `behind` on, as messages."""
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
        if offset < (offset := record.offset)  # those that do not rise are left out here, and missed below
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
    """A v2 batch without compression, of no more records and headers than may be made at once."""
    plain = _plain(raw, partition, limit)
    check_records(plain[V2_HEADER.size :], raw.record_count or 0, limit)
    return plain


def _plain(raw: RawBatch, partition: TopicPartition, limit: int) -> memoryview:
    """A v2 batch without compression, which may hold as many records as it says."""
    plain = _uncompressed(raw, partition, limit)
    count = raw.record_count or 0
    if not 0 <= count * _SMALLEST_RECORD <= len(plain) - V2_HEADER.size:
        raise ValueError(f"{count} records cannot be in {len(plain)} bytes")
    return plain


def _uncompressed(raw: RawBatch, partition: TopicPartition, limit: int) -> memoryview:
    """A v2 batch that says it is not compressed, with as much behind it as the decoder may read."""
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
    """Bytes that a v2 batch of this record alone has at most, without compression."""
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
    body = compress(codec, plain[V2_HEADER.size :])
    attributes = struct.unpack_from(">h", plain, _ATTRIBUTES_AT)[0] | codec
    checked = struct.pack(">h", attributes) + plain[_ATTRIBUTES_END : V2_HEADER.size] + body
    length = _ATTRIBUTES_AT - LOG_OVERHEAD + len(checked)
    prefix = struct.pack(">qiib", base_offset, length, leader_epoch, 2)
    return prefix + struct.pack(">I", crc32c(checked)) + checked
