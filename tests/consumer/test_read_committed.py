"""Transactions as a claim reads them, under each isolation level. Over the in-memory cluster under virtual time."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ConsumerGroupHandler, Session
from sarameya.embedded import EmbeddedCluster
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import deadline, eventually, orders, start_member
from tests.group.standalone_kit import Watched, take

COMMITS, ABORTS, OPEN = 1, 2, 3
"""Producer ids, named for the outcome of their transactions."""


def fill_with_transactions(cluster: EmbeddedCluster) -> None:
    """Produce offsets 0 to 5: two interleaved transactions and a plain message; the markers are 4 and 5."""
    cluster.produce_transactional("orders", 0, b"aborted", producer_id=ABORTS)
    cluster.produce_transactional("orders", 0, b"committed", producer_id=COMMITS)
    cluster.produce("orders", 0, b"plain")
    cluster.produce_transactional("orders", 0, b"aborted too", producer_id=ABORTS)
    cluster.end_transaction(ABORTS, commit=False)
    cluster.end_transaction(COMMITS, commit=True)


class Reads(ConsumerGroupHandler):
    """Keeps the values and the claim, which has its position."""

    def __init__(self, *, by_batches: bool) -> None:
        self.claim: Claim | None = None
        self.values: list[bytes | None] = []
        self._by_batches = by_batches

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        self.claim = claim
        if self._by_batches:
            async for batch in claim.batches():
                self.values += [message.value for message in batch]
        else:
            async for message in claim:
                self.values.append(message.value)

    def is_at(self, position: int, lag: int) -> bool:
        return self.claim is not None and (self.claim.position, self.claim.lag) == (position, lag)


@pytest.mark.parametrize("by_batches", [False, True], ids=["messages", "batches"])
@pytest.mark.parametrize(
    ("level", "values"),
    [
        ("read_committed", [b"committed", b"plain"]),
        ("read_uncommitted", [b"aborted", b"committed", b"plain", b"aborted too"]),
    ],
)
async def test_aborted_messages_and_markers_leave_no_lag(
    autojump_clock: MockClock, level: str, values: list[bytes], by_batches: bool
) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill_with_transactions(cluster)
        handler = Reads(by_batches=by_batches)
        await start_member(nursery, cluster, handler, isolation_level=level)
        await eventually(lambda: handler.is_at(6, 0))
        assert handler.values == values


async def test_wrong_crcs_of_markers_pass_without_crc_checks(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil_crcs(request: Any, answer: Any) -> None:
        for part in (part for topic in answer.responses for part in topic.partitions):
            part.records, at = bytearray(part.records or b""), 0
            while at < len(part.records):
                part.records[at + 17] ^= 0xFF
                at += 12 + struct.unpack_from(">i", part.records, at + 8)[0]

    edit_answers(monkeypatch, Api.FETCH, spoil_crcs)
    async with orders() as cluster, deadline() as nursery:
        fill_with_transactions(cluster)
        handler = Reads(by_batches=False)
        await start_member(nursery, cluster, handler, isolation_level="read_committed", check_crcs=False)
        await eventually(lambda: handler.is_at(6, 0))
        assert handler.values == [b"committed", b"plain"]


async def test_log_ends_before_an_open_transaction(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill_with_transactions(cluster)
        cluster.produce_transactional("orders", 0, b"open", producer_id=OPEN)
        cluster.produce("orders", 0, b"behind")
        careful, careless = Reads(by_batches=False), Reads(by_batches=False)
        await start_member(nursery, cluster, careful, group="careful", isolation_level="read_committed")
        await start_member(nursery, cluster, careless, group="careless")
        await eventually(lambda: careless.is_at(8, 0))
        await trio.sleep(5)
        assert careful.is_at(6, 0)
        assert careful.claim is not None
        assert (careful.claim.last_stable_offset, careful.claim.high_water_mark) == (6, 8)
        cluster.end_transaction(OPEN, commit=True)
        await eventually(lambda: careful.is_at(9, 0))
        assert careful.values == [b"committed", b"plain", b"open", b"behind"]
        assert careful.claim.last_stable_offset == 9


async def test_log_of_only_aborted_messages_is_skipped(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        for _ in range(3):
            cluster.produce_transactional("orders", 0, b"aborted", producer_id=ABORTS)
            cluster.end_transaction(ABORTS, commit=False)
        handler = Reads(by_batches=False)
        await start_member(nursery, cluster, handler, isolation_level="read_committed")
        await eventually(lambda: handler.is_at(6, 0))
        assert handler.values == []


async def test_reader_without_a_group_gets_only_committed_messages(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        fill_with_transactions(cluster)
        async with Watched(cluster, isolation_level="read_committed") as consumer:
            async with consumer.consume_partition("orders", 0, "oldest") as claim:
                cluster.produce("orders", 0, b"behind the markers")
                values = [message.value for message in await take(claim, 3)]
                assert values == [b"committed", b"plain", b"behind the markers"]
