"""Unusual but valid records: every byte of them reaches the handler, however it reads."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ConsumerGroupHandler, Message, Session
from sarameya.model import Headers
from sarameya.protocol.records.batch_codec import build
from sarameya.protocol.records.compression import Codec
from tests.group.kit import Recorder, committed, deadline, orders, start_member
from tests.protocol.test_records import GOLDEN

NOT_TEXT = bytes(range(256))
REPEATED = (("trace", b"1"), ("trace", b"2"), ("trace", None), ("", b""), ("größe", NOT_TEXT))

ODD = [
    (0, b"k", None, ()),  # a tombstone
    (0, None, None, ()),
    (0, None, b"v", ()),
    (0, b"", b"", ()),
    (0, NOT_TEXT, NOT_TEXT, ()),
    (0, None, None, REPEATED),
    (-1, b"k", b"before 1970", ()),
    (2**53, b"k", b"after the sun has died", ()),
    (5, b"k", b"out of order", (("h", None),) * 50),
]


def contents(messages: list[Message]) -> list[tuple[int, bytes | None, bytes | None, Headers]]:
    return [(m.timestamp, m.key, m.value, m.headers) for m in messages]


class ByBatches(ConsumerGroupHandler):
    """A handler that keeps the messages of batches, and their Arrow rows."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.rows: list[dict[str, object]] = []
        self.done = trio.Event()

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for batch in claim.batches():
            self.messages += batch
            self.rows += batch.to_arrow().to_pylist()
            session.mark_offset(claim.topic, claim.partition, batch.next_offset)
            self.done.set()


@pytest.mark.parametrize("codec", Codec)
async def test_unusual_keys_values_and_headers_are_kept(autojump_clock: MockClock, codec: Codec) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.append("orders", 0, build(ODD, codec=codec))
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(len(ODD))
        assert contents(handler.messages) == ODD
        await member.close()
        assert committed(cluster) == {"orders-0": len(ODD)}


async def test_unusual_records_are_kept_in_batches_and_in_arrow(autojump_clock: MockClock) -> None:
    pytest.importorskip("pyarrow")
    datable = [record for record in ODD if record[0] < 2**45]
    async with orders() as cluster, deadline() as nursery:
        cluster.append("orders", 0, build(datable))
        handler = ByBatches()
        await start_member(nursery, cluster, handler)
        await handler.done.wait()
        assert contents(handler.messages) == datable
        assert [(row["key"], row["value"]) for row in handler.rows] == [(key, value) for _, key, value, _ in datable]
        rows = [row["headers"] or [] for row in handler.rows]
        assert [tuple((h["key"], h["value"]) for h in headers) for headers in rows] == [r[3] for r in datable]


@pytest.mark.parametrize("name", ["v0-none", "v0-gzip", "v0-lz4", "v1-snappy", "v1-gzip", "v2-zstd", "v2-none"])
async def test_records_of_java_in_any_format_reach_the_handler(autojump_clock: MockClock, name: str) -> None:
    """The recorded bytes have three messages, from offset 1000 on."""
    async with orders() as cluster, deadline() as nursery:
        cluster.append_raw("orders", 0, GOLDEN[name], 1002)
        cluster.produce("orders", 0, b"today's")
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.received(4)
        assert handler.offsets("orders", 0) == [1000, 1001, 1002, 1003]
        assert handler.values() == [b"x" * 100, b"\xff\x00\xfe", None, b"today's"]
