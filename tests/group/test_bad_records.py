"""Invalid bytes in a log raise a typed error with topic, partition and offset; other partitions are still read.

The handlers here catch the error of their claim and wait. Other tests cover handlers whose error ends the session.
"""

from __future__ import annotations

import struct

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ConsumerGroupHandler, RecordError, Session
from sarameya.errors import CorruptRecordError, DecompressionLimitError, UnsupportedFormatError
from sarameya.protocol.records.batch_codec import build
from sarameya.protocol.records.compression import Codec
from tests.group.kit import committed, deadline, eventually, fill, orders, start_member
from tests.protocol.test_records import (
    batch_of,
    flipped,
    legacy,
    record,
    resealed,
    tampered,
    varint,
    with_length,
    wrapper,
)

BAD_AT = 5
"""Offset at which the bad bytes start. All records before it are good."""


def at_its_place(data: bytes) -> bytes:
    """Return the batch with the base offset of its place in the log, which no CRC covers."""
    return struct.pack(">q", BAD_AT) + data[8:]


def five() -> bytes:
    return build([(0, None, b"x" * 100, ())] * 5)


@attrs.frozen
class Bad:
    data: bytes
    error: type[RecordError]
    words: str


BAD = {
    "CRC": Bad(flipped(five(), -1), CorruptRecordError, "CRC"),
    "negative length": Bad(with_length(five(), -5), CorruptRecordError, "-5 bytes"),
    "length beyond the log's end": Bad(with_length(five(), 10_000), CorruptRecordError, "less than one whole batch"),
    "truncated": Bad(five()[:-10], CorruptRecordError, "less than one whole batch"),
    "truncated in its header": Bad(five()[:40], CorruptRecordError, "less than one whole batch"),
    "unknown codec": Bad(tampered(five(), attributes=7), UnsupportedFormatError, "codec 7"),
    "unknown magic": Bad(five()[:16] + b"\x09" + five()[17:], UnsupportedFormatError, "magic 9"),
    "data that is not zstd": Bad(tampered(five(), attributes=Codec.ZSTD), CorruptRecordError, "zstd"),
    "negative count": Bad(tampered(five(), count=-1), CorruptRecordError, "-1 records"),
    "count beyond the batch": Bad(tampered(five(), count=2**31 - 1), CorruptRecordError, "2147483647 records"),
    "last offset before the first": Bad(tampered(five(), last_delta=-7), CorruptRecordError, "the offsets 5 to -2"),
    "record longer than the batch": Bad(batch_of(varint(2**40) + record()[1:]), CorruptRecordError, "structure"),
    "key longer than the record": Bad(batch_of(record(key=varint(2**31))), CorruptRecordError, "structure"),
    "header key that is not UTF-8": Bad(
        batch_of(record(headers=varint(1) + varint(2) + b"\xff\xfe" + varint(-1))), CorruptRecordError, "is not UTF-8"
    ),
    "bomb": Bad(
        build([(0, None, bytes(2_000_000), ())], codec=Codec.ZSTD),
        DecompressionLimitError,
        "fetch_max_decompressed_bytes",
    ),
    "v1 CRC": Bad(flipped(legacy(1, 0, b"k", b"v"), -1), CorruptRecordError, "CRC"),
    "v1 key length": Bad(
        resealed(legacy(1, 0, b"k", b"v")[:26] + struct.pack(">i", 2**30) + b"more"), CorruptRecordError, "does not fit"
    ),
    "v1 codec": Bad(legacy(1, 5, b"k", b"v"), UnsupportedFormatError, "codec 5"),
    "v1 bomb": Bad(
        wrapper(legacy(1, 0, None, bytes(2_000_000), offset=0)), DecompressionLimitError, "fetch_max_decompressed_bytes"
    ),
    "v0 without compressed data": Bad(legacy(0, Codec.GZIP, None, b""), CorruptRecordError, "gzip"),
}


class Waits(ConsumerGroupHandler):
    """A handler that marks what it reads, keeps the error of its claim, and then waits until the claim has stopped."""

    def __init__(self, *, by_batches: bool) -> None:
        self.offsets: dict[int, list[int]] = {}
        self.errors: list[RecordError] = []
        self.sessions = 0
        self._by_batches = by_batches

    async def setup(self, session: Session) -> None:
        self.sessions += 1

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        offsets = self.offsets.setdefault(claim.partition, [])
        try:
            if self._by_batches:
                async for batch in claim.batches():
                    offsets += [message.offset for message in batch]
                    session.mark_offset(claim.topic, claim.partition, batch.next_offset)
            else:
                async for message in claim:
                    offsets.append(message.offset)
                    session.mark_message(message)
        except RecordError as error:
            self.errors.append(error)
            await eventually(lambda: claim.has_ended)


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("by_batches", [False, True], ids=["messages", "batches"])
async def test_bad_batch_raises_its_offset_and_stops_only_its_claim(
    autojump_clock: MockClock, bad: Bad, by_batches: bool
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, BAD_AT, 0)
        cluster.append_raw("orders", 0, at_its_place(bad.data), BAD_AT + 4)
        handler = Waits(by_batches=by_batches)
        member = await start_member(nursery, cluster, handler, fetch_max_decompressed_bytes=1_000_000)
        await eventually(lambda: bool(handler.errors))
        for second in range(30):
            cluster.produce("orders", 1, b"%d" % second)
            await trio.sleep(1)
            assert handler.offsets[1] == list(range(second + 1)), "the other partition is read without delay"
        (error,) = handler.errors
        assert type(error) is bad.error
        assert (error.topic, error.partition, error.offset) == ("orders", 0, BAD_AT)
        assert str(error).startswith(f"orders-0 at offset {BAD_AT}: ")
        assert bad.words in str(error)
        assert handler.offsets[0] == list(range(BAD_AT)), "all messages before the bad batch, none after it"
        assert handler.sessions == 1
        await member.close()
        assert member.error is None
        assert committed(cluster) == {"orders-0": BAD_AT, "orders-1": 30}


class Columns(Waits):
    """A handler that reads Arrow columns, as a sink does."""

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        try:
            async for batch in claim.batches():
                self.offsets.setdefault(0, []).extend(batch.to_arrow()["offset"].to_pylist())
        except RecordError as error:
            self.errors.append(error)
            await eventually(lambda: claim.has_ended)


@pytest.mark.parametrize("kind", [Waits, Columns])
@pytest.mark.parametrize("by_batches", [False, True])
async def test_fault_59_header_key_not_utf8_stops_the_claim(
    autojump_clock: MockClock, kind: type[Waits], by_batches: bool
) -> None:
    """No message of the batch is delivered. The error says where it ends, and how to continue."""
    bad = record(headers=varint(1) + varint(2) + b"\xff\xfe" + varint(-1))
    async with orders(1) as cluster, deadline() as nursery:
        fill(cluster, BAD_AT, 0)
        cluster.append_raw("orders", 0, at_its_place(batch_of(bad)), BAD_AT)
        handler = kind(by_batches=by_batches)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: bool(handler.errors))
        await member.close()
    text = str(handler.errors[0])
    assert f"orders-0 at offset {BAD_AT}: the key of a record's header is not UTF-8: b'\\xff\\xfe'" in text
    assert f"in the batch up to offset {BAD_AT}; to go on, set the group's offset after it" in text
    assert handler.offsets[0] == list(range(BAD_AT))
