"""Memory that the records of a batch take as Python objects, estimated before the objects are made. Pure.

A record of seven bytes takes two hundred bytes as a message, and a header of two bytes takes eighty. A few kilobytes
from a broker, decompressed within bounds, could therefore still become gigabytes of objects. The estimate is rough, and
usually too high. Batches of an ordinary size are not inspected at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sarameya.model import Message
from sarameya.protocol.records.compression import TooLargeError

RECORD_BYTES, LEGACY_RECORD_BYTES, HEADER_BYTES = 200, 400, 100
"""Estimated bytes of a message, of a message in an old format, and of a header, without their contents."""
_LIMIT_FACTOR, _MIN_ALLOWANCE = 4, 2**20
_SLICE = 1000
"""Maximal number of records to decode at a time."""
_SMALLEST_HEADER = 2
"""Bytes of the smallest header: the lengths of its key and of its value."""
_SAMPLE = 8
"""Approximate number of messages in a sample."""


def allowance(limit: int) -> int:
    """Return the bytes that the records of one batch may take as objects.

    Args:
        limit: Bytes to which one batch may be decompressed.
    """
    return _LIMIT_FACTOR * limit + _MIN_ALLOWANCE


def check_records(records: memoryview, count: int, limit: int) -> None:
    """Raise TooLargeError if the records (v2) would take more than their allowance.

    Malformed bytes pass: the decoder reports them.

    Args:
        records: Uncompressed records, without the batch header.
        count: Number of records, as the batch header states it.
        limit: Bytes to which one batch may be decompressed.
    """
    left = allowance(limit) - count * RECORD_BYTES
    if left < 0 or (
        len(records) // _SMALLEST_HEADER * HEADER_BYTES > left and _headers(bytes(records), count) * HEADER_BYTES > left
    ):
        raise TooLargeError


def slices(records: memoryview, count: int, limit: int) -> Iterator[int]:
    """Yield the numbers of records (v2) to decode at a time: at most a thousand, within their allowance.

    Malformed bytes pass: the decoder reports them.

    Args:
        records: Uncompressed records, without the batch header.
        count: Number of records, as the batch header states it.
        limit: Bytes to which one batch may be decompressed.

    Raises:
        TooLargeError: The next record alone would take more than the allowance.
    """
    most_bytes = allowance(limit) // HEADER_BYTES * _SMALLEST_HEADER
    if len(records) <= most_bytes:
        yield from (min(_SLICE, count - at) for at in range(0, count, _SLICE))
        return
    data, at, number, size = bytes(records), 0, 0, 0
    for left in range(count, 0, -1):
        try:
            length, begin = _varint(data, at)
        except IndexError:
            yield number + left
            return
        if length > most_bytes and _headers(data[at : begin + length], 1) * HEADER_BYTES > allowance(limit):
            raise TooLargeError
        if number == _SLICE or (number and size + length > most_bytes):
            yield number
            number = size = 0
        number, size, at = number + 1, size + length, max(begin + length, begin)
    yield number


def content_bytes(messages: Sequence[Message]) -> int:
    """Estimate the bytes of the keys, values and headers of `messages` (at least one), from a sample of them."""
    sample = messages[:: len(messages) // _SAMPLE + 1]
    size = 0
    for message in sample:
        size += len(message.key or b"") + len(message.value or b"")
        size += sum(HEADER_BYTES + len(key) + len(value or b"") for key, value in message.headers)
    return len(messages) * size // len(sample)


def _headers(data: bytes, count: int) -> int:
    """Count the headers of all records, up to the first malformed record."""
    found = at = 0
    try:
        for _ in range(count):
            length, at = _varint(data, at)
            end = at + length
            at += 1  # attributes
            for _ in range(2):  # timestamp, offset
                while data[at] > 127:
                    at += 1
                at += 1
            for _ in range(2):  # key, value
                length, at = _varint(data, at)
                if length > 0:
                    at += length
            if data[at]:
                number, at = _varint(data, at)
                # The decoder makes all these headers before it notices that they go beyond the record's end.
                found += max(min(number, (len(data) - at) // _SMALLEST_HEADER), 0)
            if end < at:
                break
            at = end
    except IndexError:
        pass
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the signed number at `at` and the position after it. Raise IndexError if it does not end."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = byte & 0x7F
    for shift in range(7, 70, 7):
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
    raise IndexError
