"""Thousands of batches that try to mislead the record decoder. test_records.py runs this file as a process.

Each batch is placed directly before a page without read access. So a read of one byte too many ends the process with a
signal.
"""

import ctypes
import mmap
import random
import sys

from sarameya.errors import RecordError
from sarameya.model import Message, TopicPartition
from sarameya.protocol.records import batch_codec as records
from sarameya.protocol.records.batch_codec import build, crc32c, decode, split
from sarameya.protocol.records.batch_headers import V2_HEADER

PARTITION = TopicPartition("orders", 3)
ROOM = 16 * mmap.PAGESIZE

decoder = records.DefaultRecordBatch
region = mmap.mmap(-1, ROOM + mmap.PAGESIZE)
address = ctypes.addressof(ctypes.c_char.from_buffer(region))
if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(address + ROOM), mmap.PAGESIZE, 0):
    sys.exit("mprotect failed")


def decoder_before_guard_page(plain: memoryview) -> object:
    """Return a decoder of a copy of `plain`, placed so that the readable memory ends right after it.

    The copy includes the bytes after `plain` that the decoder may read (`_READ_BEYOND`).
    """
    log = bytes(plain.obj)
    start = log.index(plain)
    end = start + len(plain) + records._READ_BEYOND
    assert len(log) >= end
    region[ROOM - len(plain) - records._READ_BEYOND : ROOM] = log[start:end]
    return decoder(memoryview(region)[ROOM - len(plain) - records._READ_BEYOND : ROOM - records._READ_BEYOND])


def sealed(header: list[int], body: bytes) -> bytes:
    header[1] = V2_HEADER.size - 12 + len(body)
    header[4] = crc32c((V2_HEADER.pack(*header) + body)[21:])
    return V2_HEADER.pack(*header) + body


def mutations(rng: random.Random, good: bytes) -> bytes:
    body = bytearray(good[V2_HEADER.size :])
    header = list(V2_HEADER.unpack_from(good))
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(body))
        match rng.randrange(5):
            case 0:
                body[at] = rng.randrange(256)
            case 1:
                body[at] |= 0x80  # a varint that does not end here
            case 2:
                del body[at:]  # cut off
                body.append(rng.choice((0x80, 0xFF, 0x01)))
            case 3:
                body[at:at] = bytes([0xFF]) * rng.randrange(1, 11) + b"\x01"  # a huge number
            case 4:
                header[12] = rng.choice((0, 1, 2, 3, 50, 2**31 - 1))
    return sealed(header, bytes(body))


def outcome(log: bytes) -> list[Message] | None:
    """Return the messages of the first batch; None if the decoder refuses it."""
    try:
        return decode(next(split(log, PARTITION, 0)), PARTITION)
    except RecordError:
        return None


def main() -> None:
    records.DefaultRecordBatch = decoder_before_guard_page
    rng = random.Random(20)
    headers = (("trace", b"\x80\xff"), ("trace", None), ("", b""))
    good_batches = [
        build([(0, b"k", b"v", headers)]),
        build([(n, None, b"value", headers[:n]) for n in range(4)]),
        build([(0, None, None, ())]),
    ]
    decoded = refused = 0
    for round_ in range(60_000 if "_crecords" in decoder.__module__ else 6_000):
        data = mutations(rng, good_batches[round_ % len(good_batches)])
        alone = outcome(data)
        # Any bytes may follow a batch: a fetch ends with a batch that its size limit cuts off.
        assert outcome(data + bytes(rng.choices((0x80, 0xFF, 0x00, 0x01, 0x7F), k=40))) == alone
        assert outcome(data + bytes([0xFF]) * 40) == alone
        if alone is None:
            refused += 1
        else:
            decoded += 1
    kind = "compiled" if "_crecords" in decoder.__module__ else "pure"
    print(f"{kind}: {decoded} decoded, {refused} refused")
    if not (decoded and refused):
        sys.exit("the mutations prove nothing: all were decoded, or all were refused")


main()
