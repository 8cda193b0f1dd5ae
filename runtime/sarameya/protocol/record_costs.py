"""What the records of a batch will take in memory, found out before any is made; and what messages do take. Pure.

A record of seven bytes takes two hundred as a message, and a header of two bytes eighty: so a few kilobytes from a
broker, decompressed within bounds, could still become gigabytes of objects. What is counted here is rough and on the
high side; batches of an ordinary size are not looked into at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sarameya.model import Message
from sarameya.protocol.compression import TooLargeError

RECORD_BYTES, LEGACY_RECORD_BYTES, HEADER_BYTES = 200, 400, 100
"""What one takes as an object, without what stands in it."""
_TIMES, _AT_LEAST = 4, 2**20
_SLICE = 1000
_SMALLEST_HEADER = 2
"""The lengths of its key and of its value."""
_LOOKED_AT = 8


def allowance(limit: int) -> int:
    """Bytes that the records of one batch may take as objects, where `limit` bytes may be decompressed."""
    return _TIMES * limit + _AT_LEAST


def check_records(records: memoryview, count: int, limit: int) -> None:
    """Raise TooLargeError if the `count` records (v2) would take more than their allowance.

    Bytes that are no records are let pass: whoever decodes them finds out.
    """
    left = allowance(limit) - count * RECORD_BYTES
    if left < 0 or (
        len(records) // _SMALLEST_HEADER * HEADER_BYTES > left and _headers(bytes(records), count) * HEADER_BYTES > left
    ):
        raise TooLargeError


def slices(records: memoryview, count: int, limit: int) -> Iterator[int]:
    """How many of the `count` records (v2) to make at a time: no more than a thousand, nor than their allowance.

    Raises TooLargeError before a record that would take more alone. Bytes that are no records are let pass.
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
    """What keys, values and headers of these, one at least, take, about: a few of them are looked at."""
    some = messages[:: len(messages) // _LOOKED_AT + 1]
    size = 0
    for message in some:
        size += len(message.key or b"") + len(message.value or b"")
        size += sum(HEADER_BYTES + len(key) + len(value or b"") for key, value in message.headers)
    return len(messages) * size // len(some)


def _headers(data: bytes, count: int) -> int:
    """How many headers there are, as far as the records' lengths lead."""
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
                # The decoder makes those that are there before it sees where the record should have ended.
                found += max(min(number, (len(data) - at) // _SMALLEST_HEADER), 0)
            if end < at:
                break
            at = end
    except IndexError:
        pass
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The signed number that begins here, and where it ends. Raises IndexError where it does not."""
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
