"""Record batches of transcripts: valid and corrupted ones to produce, and the recorded form of fetched ones."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from sarameya.errors import RecordError
from sarameya.model import TopicPartition
from sarameya.protocol.records.batch_codec import RawBatch, build, crc32c, crc_matches, decode, split
from sarameya.protocol.records.compression import Codec

NOON = 1_600_000_000_000
"""The default timestamp of records, in milliseconds."""

_LENGTH_AT, _MAGIC_AT, _CRC_AT, _ATTRIBUTES_AT, _LAST_DELTA_AT, _COUNT_AT = 8, 16, 17, 21, 23, 57
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_ANYWHERE = TopicPartition("", 0)
_LONG = 20


@attrs.frozen
class Batch:
    """A v2 batch. It is encoded during the play, when its producer id is known."""

    values: tuple[bytes, ...]
    times: tuple[int, ...]
    codec: Codec = Codec.NONE
    producer: Any = -1
    """A producer id, or a placeholder of it; `epoch` likewise."""
    epoch: Any = -1
    sequence: int = -1
    base_offset: int = 0
    transactional: bool = False
    corrupted: Callable[[bytes], bytes] | None = None
    """Returns the encoded batch with a fault."""

    def encoded(self, producer: int, epoch: int) -> bytes:
        whole = build(
            [(time, None, value, ()) for time, value in zip(self.times, self.values, strict=True)],
            base_offset=self.base_offset,
            codec=self.codec,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=self.sequence,
            transactional=self.transactional,
        )
        return self.corrupted(whole) if self.corrupted else whole


def batch(*values: str | bytes, times: int | Sequence[int] = NOON, **fields: Any) -> Batch:
    """Return a batch of records without keys. `times`: one timestamp for all records, or one for each."""
    encoded = tuple(value.encode() if isinstance(value, str) else value for value in values)
    return Batch(encoded, (times,) * len(values) if isinstance(times, int) else tuple(times), **fields)


# Faults of a batch


def _set(form: str, at: int, value: int, *, signed: bool = True) -> Callable[[bytes], bytes]:
    """Return a function that sets a field of the header, and the CRC to match if `signed`."""

    def corrupt(whole: bytes) -> bytes:
        changed = bytearray(whole)
        struct.pack_into(form, changed, at, value)
        if signed:
            struct.pack_into(">I", changed, _CRC_AT, crc32c(bytes(changed[_ATTRIBUTES_AT:])))
        return bytes(changed)

    return corrupt


def wrong_crc(whole: bytes) -> bytes:
    return whole[:-1] + bytes([whole[-1] ^ 1])


def cut_off(whole: bytes) -> bytes:
    return whole[:-1]


def with_tail(whole: bytes) -> bytes:
    return whole + b"tail"


def magic(number: int) -> Callable[[bytes], bytes]:
    return _set(">b", _MAGIC_AT, number, signed=False)


def length(number: int) -> Callable[[bytes], bytes]:
    return _set(">i", _LENGTH_AT, number, signed=False)


def attributes(number: int) -> Callable[[bytes], bytes]:
    """Set the attributes; the lowest three bits name the codec."""
    return _set(">h", _ATTRIBUTES_AT, number)


def last_delta(number: int) -> Callable[[bytes], bytes]:
    """Set the offset of the last record relative to the first."""
    return _set(">i", _LAST_DELTA_AT, number)


def record_count(number: int) -> Callable[[bytes], bytes]:
    return _set(">i", _COUNT_AT, number)


control = attributes(_CONTROL)
without_transaction = attributes(_TRANSACTIONAL)
"""Marks a batch as transactional, although no transaction was begun."""


# The recorded form of fetched batches


def described(records: bytes, producer: Callable[[int], str]) -> str:
    """Describe each batch: offsets, leader epoch, codec, producer, and values.

    `producer` returns the name of a producer id.
    """
    texts, size = [], 0
    try:
        for raw in split(records, _ANYWHERE, 0):
            texts.append(_described(raw, producer))
            size += len(raw.data)
    except RecordError as error:
        return " | ".join([*texts, f"<{error}>"])
    return " | ".join([*texts, "<cut off>"] if size < len(records) else texts)


def _described(raw: RawBatch, producer: Callable[[int], str]) -> str:
    offsets = f"{raw.base_offset}" if raw.base_offset == raw.last_offset else f"{raw.base_offset}-{raw.last_offset}"
    facts = [f"epoch {raw.leader_epoch}"]
    if raw.attributes & 0x07:
        facts.append(Codec(raw.attributes & 0x07).name.lower())
    if raw.is_transactional:
        facts.append("transactional")
    if raw.producer_id >= 0:
        facts.append(f"{producer(raw.producer_id)} {raw.producer_epoch}/{raw.base_sequence}")
    if not crc_matches(raw):
        facts.append("wrong CRC")
    messages = decode(raw, _ANYWHERE, check_crc=False)
    if raw.is_control:
        values = ["commit" if (message.key or b"")[-1:] == b"\x01" else "abort" for message in messages]
    else:
        values = [_shortened(message.value) for message in messages]
    return f"{offsets} ({', '.join(facts)}): {' '.join(values)}"


def _shortened(value: bytes | None) -> str:
    if value is None:
        return "null"
    text = value.decode("ascii", "backslashreplace")
    return text if len(text) <= _LONG else f"{text[0]}...{text[-1]} of {len(text)}"
