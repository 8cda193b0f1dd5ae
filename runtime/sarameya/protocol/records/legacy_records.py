"""Message formats older than record batches: v0, and v1 with timestamps (KIP-32).

Clients have not written these formats since Kafka 0.11, but logs still have them. They are rare, and the compiled
decoder reads beyond its buffer if their lengths are wrong, so they are decoded in Python.
"""

from __future__ import annotations

import struct
from itertools import islice
from operator import lt

import xxhash

from sarameya.errors import CorruptRecordError
from sarameya.model import Message, TimestampType, TopicPartition
from sarameya.protocol.records.batch_headers import CODEC_MASK, RawBatch, codec_of, crc_matches, split
from sarameya.protocol.records.compression import Codec, TooLargeError, decompress
from sarameya.protocol.records.record_costs import LEGACY_RECORD_BYTES, allowance

_KEY_AT = {0: 18, 1: 26}
_LZ4_CHECKED_AT, _LZ4_CHECKSUM_AT = 4, 6
_LZ4_CONTENT_SIZE_FLAG = 0x08


def decode_legacy(raw: RawBatch, partition: TopicPartition, check_crc: bool, limit: int) -> list[Message]:
    """Decode one message-set entry: its message or, if it is compressed, the messages inside it.

    Raises as `batch_codec.decode` does, and ValueError or an error of `compression` for a broken structure.
    """
    codec = codec_of(raw, partition)
    key, value = _key_and_value(raw)
    if codec is Codec.NONE:
        return [Message(*partition, raw.base_offset, raw.max_timestamp, raw.timestamp_type, key, value)]
    if value is None:
        raise ValueError("a compressed message has no value")
    if codec is Codec.LZ4 and raw.magic == 0:
        value = _with_valid_lz4_checksum(value)
    entries = _entries(decompress(codec, value, limit), raw, partition, allowance(limit) // LEGACY_RECORD_BYTES)
    # v1: inner offsets count from zero, and the wrapper has the absolute offset of the last (KIP-31). v0: all absolute.
    shift = raw.base_offset - entries[-1].base_offset if raw.magic == 1 else 0
    offsets = [entry.base_offset + shift for entry in entries]
    if offsets[0] < 0 or offsets[-1] > raw.last_offset:
        raise ValueError("the offsets inside a compressed message do not match its own offset")
    if not all(map(lt, offsets, offsets[1:])):
        raise ValueError("an offset is not higher than the previous offset")
    messages: list[Message] = []
    for entry, offset in zip(entries, offsets, strict=True):
        if check_crc and not crc_matches(entry):
            raise CorruptRecordError(*partition, raw.base_offset, "an inner message's CRC does not match its bytes")
        key, value = _key_and_value(entry)
        kind = raw.timestamp_type
        # The broker writes LogAppendTime into the wrapper only.
        timestamp = raw.max_timestamp if kind is TimestampType.LOG_APPEND_TIME else entry.max_timestamp
        messages.append(Message(*partition, offset, timestamp, kind, key, value))
    return messages


def _entries(inner: bytes, raw: RawBatch, partition: TopicPartition, max_entries: int) -> list[RawBatch]:
    entries = list(islice(split(inner, partition, raw.base_offset), max_entries + 1))
    if len(entries) > max_entries:
        raise TooLargeError
    if not entries or entries[-1].end != len(inner):
        raise ValueError("a compressed message must contain whole messages, and nothing else")
    if any(entry.magic != raw.magic or entry.attributes & CODEC_MASK for entry in entries):
        raise ValueError("a compressed message contains another compressed message, or one of another format")
    return entries


def _key_and_value(raw: RawBatch) -> tuple[bytes | None, bytes | None]:
    data = raw.data
    key, at = _nullable_bytes(data, _KEY_AT[raw.magic])
    value, at = _nullable_bytes(data, at)
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes after a message's value")
    return key, value


def _nullable_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = struct.unpack_from(">i", data, at)
    at += 4
    if length == -1:
        return None, at
    if not 0 <= length <= len(data) - at:
        raise ValueError(f"a key or value of {length} bytes does not fit into its message")
    return data[at : at + length], at + length


def _with_valid_lz4_checksum(frame: bytes) -> bytes:
    """Correct the header checksum of an LZ4 frame: Kafka 0.8 and 0.9 included the magic in it (KIP-57)."""
    if len(frame) <= _LZ4_CHECKSUM_AT:
        raise ValueError("an LZ4 frame has no header")
    size = 8 if frame[_LZ4_CHECKED_AT] & _LZ4_CONTENT_SIZE_FLAG else 0
    at = _LZ4_CHECKSUM_AT + size
    checksum = xxhash.xxh32(frame[_LZ4_CHECKED_AT:at]).digest()[2:3]
    return frame[:at] + checksum + frame[at + 1 :]
