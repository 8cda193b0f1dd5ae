"""Partitions beside others, in trouble, and at their end, under virtual time, with Spark faked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya_handlers import SparkSink
from sarameya_handlers.landing.links import ChainKey, Kind, Link, Origin
from tests.handlers.kit import FakeClaim, FakeSession, batch
from tests.handlers.spark.kit import FakeEngine, FakeTable, consume_in

IDLE, BUSY = ChainKey("sarameya", "orders", 0), ChainKey("sarameya", "orders", 1)


def sink_to(table: FakeTable, **options: Any) -> SparkSink:
    return SparkSink(table, spark=FakeEngine(), **{"max_rows": 10, "max_age": 30.0, **options})


@pytest.mark.parametrize("each", [5.0, 29.0, 31.0])
async def test_idle_head_is_stated_anew_however_often_its_neighbour_lands(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, each: float
) -> None:
    """Where landings share a job each one asks all partitions whether they have something to land along."""
    monkeypatch.setattr("sarameya_handlers.spark.partition.wall_clock", lambda: int(trio.current_time() * 1000))
    table = FakeTable(tmp_path, landings_a_job=8)
    table.restate_after = 100.0
    idle, busy, session = FakeClaim(), FakeClaim(partition=1), FakeSession()
    async with sink_to(table) as sink, trio.open_nursery() as claims:
        claims.start_soon(consume_in, sink, session, idle)
        claims.start_soon(consume_in, sink, session, busy)
        idle.send(batch(0, 10))
        for first in range(0, 300, 10):
            busy.send(batch(first, 10, partition=1))
            await trio.sleep(each)
        idle.end()
        busy.end()
    restated = [link for link in table.chains[IDLE] if link.kind is Kind.RESTATED]
    # Looked at each max_age only, it is stated anew by 130 s at the latest.
    assert len(restated) >= int(30 * each / 130)


async def test_claim_that_ends_while_its_buffer_is_full_is_over_soon_though_nothing_lands(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    table = FakeTable(tmp_path)
    claim, session = FakeClaim(), FakeSession()
    async with sink_to(table) as sink, trio.open_nursery() as claims:
        table.error = OSError("disk full")
        claims.start_soon(consume_in, sink, session, claim)
        claim.send(*(batch(first, 10) for first in range(0, 30, 10)))
        await trio.sleep(100)
        assert not claim.is_read, "there is no room"
        while claim.waiting:
            claim.batches().receive_nowait()  # what was fetched and not read is dropped, as by a revocation
        claim.end()
        ended = trio.current_time()
    assert trio.current_time() - ended < 3
    assert session.marks == []


async def test_membership_that_is_lost_while_a_first_gap_does_not_land_is_no_failure(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    table = FakeTable(tmp_path)
    table.append(first_link(), list(range(10)))
    claim, session = FakeClaim(), FakeSession(log=(50, 100))
    async with sink_to(table, on_missing="leave_out") as sink, trio.open_nursery() as claims:
        table.error = OSError("disk full")
        claims.start_soon(consume_in, sink, session, claim)
        await trio.sleep(2)
        assert {landing.link.kind for landing in table.landings} == {Kind.GAP}
        session.is_lost = True
        claim.end()
    assert len(table.chains[IDLE]) == 1


async def test_membership_that_is_lost_between_two_tries_leaves_the_second_to_others(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    table = FakeTable(tmp_path)
    claim, session = FakeClaim(), FakeSession()
    async with sink_to(table) as sink, trio.open_nursery() as claims:
        table.error = OSError("disk full")
        claims.start_soon(consume_in, sink, session, claim)
        claim.send(batch(0, 10))
        await trio.sleep(0.2)
        tried = len(table.landings)
        assert tried == 1
        table.error = None
        session.is_lost = True
        claim.end()
    assert len(table.landings) == tried
    assert table.chains == {}


def first_link() -> Link:
    origin = Origin(group="flights", topic_id=FakeSession().topic_id("orders"))
    return Link(key=IDLE, number=1, from_offset=0, to_offset=10, attempt="a" * 32, origin=origin)
