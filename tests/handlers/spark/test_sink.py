"""When a SparkSink lands and when it marks, under virtual time, with Spark faked."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import HandlerError, TopicPartition
from sarameya_handlers import LandingError, SparkSink
from tests.handlers.kit import FakeClaim, FakeSession, batch, claim_of
from tests.handlers.spark.kit import FakeEngine, FakeFrame, FakeTable


@pytest.fixture
def table(tmp_path: Path) -> FakeTable:
    return FakeTable(tmp_path)


def sink_to(table: FakeTable, engine: FakeEngine | None = None, **options: Any) -> SparkSink:
    return SparkSink(table, spark=engine or FakeEngine(), **{"max_rows": 10, "max_age": 30.0, **options})


def ranges(table: FakeTable) -> list[tuple[int, int]]:
    return [(landing.from_offset, landing.to_offset) for landing in table.landings]


async def test_rows_limit_lands_exactly_that_many_and_marks_behind_them(table: FakeTable) -> None:
    session = FakeSession()
    await sink_to(table).consume_claim(session, claim_of([batch(0, 4), batch(4, 4), batch(8, 4)]))
    assert table.offsets == [list(range(10)), [10, 11]]
    assert session.marks == [("orders", 0, 10), ("orders", 0, 12)]


async def test_lost_session_lands_no_more(table: FakeTable) -> None:
    session = FakeSession()
    session.is_lost = True
    await sink_to(table).consume_claim(session, claim_of([batch(0, 4)]))
    assert table.offsets == []
    assert session.marks == []


async def test_batch_larger_than_the_rows_limit_lands_in_pieces(table: FakeTable) -> None:
    await sink_to(table).consume_claim(FakeSession(), claim_of([batch(0, 25)]))
    assert [len(offsets) for offsets in table.offsets] == [10, 10, 5]


async def test_bytes_limit_lands(table: FakeTable) -> None:
    sink = sink_to(table, max_bytes=2500)
    claim = claim_of([batch(n, 1, value=b"x" * 1000) for n in range(5)])
    await sink.consume_claim(FakeSession(), claim)
    assert [len(offsets) for offsets in table.offsets] == [2, 2, 1]


async def test_idle_topic_lands_when_its_oldest_record_is_of_age(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim, session = FakeClaim(), FakeSession()
    nursery.start_soon(sink_to(table).consume_claim, session, claim)
    await trio.sleep(7)
    claim.send(batch(0, 1))
    await trio.sleep(20)
    claim.send(batch(1, 1))
    await trio.sleep(1000)
    assert table.offsets == [[0, 1]]
    assert table.times == [37]
    assert session.marks == [("orders", 0, 2)]
    claim.end()


async def test_busy_topic_lands_when_its_oldest_record_is_of_age(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim = FakeClaim()
    nursery.start_soon(sink_to(table, max_rows=1000).consume_claim, FakeSession(), claim)
    for n in range(100):
        claim.send(batch(n, 1))
        await trio.sleep(1)
    claim.end()
    assert table.times[:3] == [30, 60, 90]


async def test_age_begins_anew_after_a_landing(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim = FakeClaim()
    nursery.start_soon(sink_to(table).consume_claim, FakeSession(), claim)
    claim.send(batch(0, 10))
    await trio.sleep(100)
    claim.send(batch(10, 1))
    await trio.sleep(100)
    claim.end()
    assert table.times == [0, 130]


async def test_session_end_lands_what_is_left(table: FakeTable) -> None:
    session = FakeSession()
    await sink_to(table).consume_claim(session, claim_of([batch(0, 3)]))
    assert table.offsets == [[0, 1, 2]]
    assert session.marks == [("orders", 0, 3)]


async def test_session_end_without_records_lands_nothing(table: FakeTable) -> None:
    session = FakeSession()
    await sink_to(table).consume_claim(session, claim_of([]))
    assert (table.landings, session.marks) == ([], [])


async def test_ranges_of_landings_touch_from_the_claims_first_offset_on(table: FakeTable) -> None:
    claim = claim_of([batch(7, 8, next_offset=20), batch(20, 12, next_offset=40)], initial_offset=5)
    await sink_to(table).consume_claim(FakeSession(), claim)
    assert ranges(table) == [(5, 22), (22, 40)]


async def test_landings_name_their_partition_rows_and_an_attempt_of_their_own(table: FakeTable) -> None:
    await sink_to(table).consume_claim(FakeSession(), claim_of([batch(0, 20)]))
    assert {landing.partition for landing in table.landings} == {TopicPartition("orders", 0)}
    assert [landing.rows for landing in table.landings] == [10, 10]
    assert len({landing.attempt for landing in table.landings}) == 2


async def test_nothing_is_marked_before_the_write_has_committed(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim, session = FakeClaim(), FakeSession()
    nursery.start_soon(sink_to(table, FakeEngine(seconds=50)).consume_claim, session, claim)
    claim.send(batch(0, 10))
    await trio.sleep(49)
    assert session.marks == []
    await trio.sleep(2)
    assert session.marks == [("orders", 0, 10)]
    claim.end()


async def test_claim_is_not_read_while_its_landing_is_on_the_way(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim, engine = FakeClaim(), FakeEngine(seconds=50)
    nursery.start_soon(sink_to(table, engine).consume_claim, FakeSession(), claim)
    claim.send(*(batch(10 * n, 10) for n in range(5)))
    await trio.sleep(49)
    assert claim.waiting == 4
    claim.end()
    await trio.sleep(1000)
    assert engine.most_running == 1
    assert len(table.landings) == 5


async def test_partitions_land_at_the_same_time(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    engine = FakeEngine(seconds=50)
    sink = sink_to(table, engine)
    for partition in range(3):
        claim = FakeClaim(partition=partition)
        claim.send(batch(0, 10, partition=partition))
        claim.end()
        nursery.start_soon(sink.consume_claim, FakeSession(), claim)
    await trio.sleep(60)
    assert engine.most_running == 3
    assert sorted(landing.partition.partition for landing in table.landings) == [0, 1, 2]


async def test_write_that_fails_is_raised_with_its_coordinates_and_marks_nothing(
    table: FakeTable, tmp_path: Path
) -> None:
    session = FakeSession()
    table.error = OSError("disk full")
    with pytest.raises(LandingError, match=r"^orders-0 \[0, 3\) did not land in .*: OSError: disk full$"):
        await sink_to(table).consume_claim(session, claim_of([batch(0, 3)]))
    assert session.marks == []
    assert os.listdir(tmp_path) == []


async def test_cancelled_landing_marks_nothing_and_is_told_as_unknown(
    table: FakeTable, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    session = FakeSession()
    with trio.move_on_after(10) as scope, caplog.at_level(logging.WARNING, "sarameya.spark"):
        await sink_to(table, FakeEngine(seconds=50)).consume_claim(session, claim_of([batch(0, 10)]))
    assert scope.cancelled_caught
    assert session.marks == []
    assert "orders-0 [0, 10): cancelled" in caplog.text
    assert "may or may not have landed" in caplog.text


async def test_transform_makes_what_is_written(table: FakeTable) -> None:
    def even(frame: FakeFrame) -> FakeFrame:
        return FakeFrame(frame.table.filter([offset % 2 == 0 for offset in frame.table["offset"].to_pylist()]))

    session = FakeSession()
    await sink_to(table, transform=even).consume_claim(session, claim_of([batch(0, 6)]))
    assert table.offsets == [[0, 2, 4]]
    assert session.marks == [("orders", 0, 6)]


async def test_transform_that_raises_ends_the_claim_and_marks_nothing(table: FakeTable) -> None:
    def broken(frame: FakeFrame) -> FakeFrame:
        raise KeyError("no such column")

    session = FakeSession()
    with pytest.raises(LandingError, match="KeyError: 'no such column'"):
        await sink_to(table, transform=broken).consume_claim(session, claim_of([batch(0, 6)]))
    assert session.marks == []


async def test_rows_lost_on_the_way_through_spark_are_noticed(table: FakeTable) -> None:
    session = FakeSession()
    table.loses = 1
    with pytest.raises(LandingError, match="Spark wrote 5 rows of 6"):
        await sink_to(table).consume_claim(session, claim_of([batch(0, 6)]))
    assert session.marks == []


async def test_sink_that_was_not_entered_refuses_the_session(table: FakeTable) -> None:
    with pytest.raises(HandlerError, match="must be entered first: async with SparkSink"):
        await sink_to(table).setup(FakeSession())


async def test_entered_sink_runs_its_engine_and_takes_sessions(table: FakeTable) -> None:
    engine = FakeEngine()
    async with sink_to(table, engine) as sink:
        assert engine.inside
        await sink.setup(FakeSession())
    assert not engine.inside


async def test_table_that_cannot_be_opened_keeps_spark_from_starting(table: FakeTable) -> None:
    table.error = HandlerError("read-only")
    engine = FakeEngine()
    with pytest.raises(HandlerError, match="read-only"):
        async with sink_to(table, engine):
            pass
    assert not engine.inside
