"""Flushes and marks of a SparkSink in virtual time. Spark is faked."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import CommittedOffset, ConnectError, HandlerError, MessageBatch, StoreUsed, TableGrown, TopicPartition
from sarameya_handlers import DeltaTable, ForeachBatch, IcebergTable, LandingError, ParquetTable, SparkSink
from sarameya_handlers.landing.dead_letters.letters import DeadLetter, DeadLetterError, DeadLetters
from sarameya_handlers.landing.errors import ForeignChainError, LostRecordsError, MovedCommitError, RewoundTableError
from sarameya_handlers.landing.links import ChainKey, CommitNote, Kind, Link, Origin
from sarameya_handlers.landing.stores.usage import Usage
from sarameya_handlers.spark.errors import SparkGoneError
from sarameya_handlers.spark.poison.poison_search import PoisonError
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing, Table
from tests.handlers.kit import FakeClaim, FakeSession, batch, claim_of, message
from tests.handlers.spark.kit import FakeEngine, FakeFrame, FakeTable, consume, consume_in

KEY = ChainKey("sarameya", "orders", 0)
ORDERS = TopicPartition("orders", 0)


class AnalysisException(Exception):
    """Recognized by its name as Spark's."""


class Py4JJavaError(Exception):
    """Recognized by its name as py4j's."""


@pytest.fixture
def table(tmp_path: Path) -> FakeTable:
    return FakeTable(tmp_path)


def sink_to(table: FakeTable, engine: FakeEngine | None = None, **options: Any) -> SparkSink:
    return SparkSink(table, spark=engine or FakeEngine(), **{"max_rows": 10, "max_age": 30.0, **options})


def ended_claim(partition: int) -> FakeClaim:
    """Return a claim with one full batch, which then ends."""
    claim = FakeClaim(partition=partition)
    claim.send(batch(0, 10, partition=partition))
    claim.end()
    return claim


def ranges(table: FakeTable) -> list[tuple[int, int]]:
    return [(landing.link.from_offset, landing.link.to_offset) for landing in table.landings]


async def test_row_limit_flushes_exactly_that_many_rows(table: FakeTable) -> None:
    session = FakeSession()
    await consume(sink_to(table), session, claim_of([batch(0, 4), batch(4, 4), batch(8, 4)]))
    assert table.offsets == [list(range(10)), [10, 11]]
    assert session.marks == [("orders", 0, 10), ("orders", 0, 12)]


async def test_lost_session_does_not_flush(table: FakeTable) -> None:
    session = FakeSession()
    session.is_lost = True
    await consume(sink_to(table), session, claim_of([batch(0, 4)]))
    assert table.offsets == []
    assert session.marks == []


async def test_batch_above_the_row_limit_is_split(table: FakeTable) -> None:
    await consume(sink_to(table), FakeSession(), claim_of([batch(0, 25)]))
    assert [len(offsets) for offsets in table.offsets] == [10, 10, 5]


async def test_byte_limit_triggers_a_flush(table: FakeTable) -> None:
    sink = sink_to(table, max_bytes=2500)
    claim = claim_of([batch(n, 1, value=b"x" * 1000) for n in range(5)])
    await consume(sink, FakeSession(), claim)
    assert [len(offsets) for offsets in table.offsets] == [2, 2, 1]


@pytest.mark.parametrize(
    ("stored", "expected"), [(100, [20, 20]), (500, [4] * 10)], ids=["packed well", "packed badly"]
)
async def test_size_of_written_files_sets_the_batch_size(tmp_path: Path, stored: int, expected: list[int]) -> None:
    """Files should have 2,000 bytes, and each record takes `stored` bytes."""
    table = SizedTable(tmp_path, stored)
    record = batch(0, 1).to_arrow().nbytes
    sink = sink_to(table, max_rows=10**6, max_bytes=10 * record, file_bytes=2000)
    await consume(sink, FakeSession(), claim_of([batch(n, 1) for n in range(50)]))
    assert [len(offsets) for offsets in table.offsets] == [10, *expected]


class SizedTable(FakeTable):
    """A table whose files have `record_bytes` bytes for each record."""

    def __init__(self, directory: Path, record_bytes: int) -> None:
        super().__init__(directory)
        self.record_bytes = record_bytes

    def append(self, link: Link, offsets: list[int]) -> None:
        super().append(attrs.evolve(link, size_bytes=self.record_bytes * len(offsets)), offsets)


async def test_idle_topic_flushes_at_max_age(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim, session = FakeClaim(), FakeSession()
    nursery.start_soon(consume, sink_to(table), session, claim)
    await trio.sleep(7)
    claim.send(batch(0, 1))
    await trio.sleep(20)
    claim.send(batch(1, 1))
    await trio.sleep(1000)
    assert table.offsets == [[0, 1]]
    assert table.times == [37]
    assert session.marks == [("orders", 0, 2)]
    claim.end()


async def test_busy_topic_flushes_at_max_age(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim = FakeClaim()
    nursery.start_soon(consume, sink_to(table, max_rows=1000), FakeSession(), claim)
    for n in range(100):
        claim.send(batch(n, 1))
        await trio.sleep(1)
    claim.end()
    assert table.times[:3] == [30, 60, 90]


async def test_age_restarts_after_a_flush(table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    claim = FakeClaim()
    nursery.start_soon(consume, sink_to(table), FakeSession(), claim)
    claim.send(batch(0, 10))
    await trio.sleep(100)
    claim.send(batch(10, 1))
    await trio.sleep(100)
    claim.end()
    assert table.times == [0, 130]


async def test_session_end_flushes_the_rest(table: FakeTable) -> None:
    session = FakeSession()
    await consume(sink_to(table), session, claim_of([batch(0, 3)]))
    assert table.offsets == [[0, 1, 2]]
    assert session.marks == [("orders", 0, 3)]


async def test_session_end_without_records_flushes_nothing(table: FakeTable) -> None:
    session = FakeSession()
    await consume(sink_to(table), session, claim_of([]))
    assert (table.landings, session.marks) == ([], [])


async def test_offset_ranges_are_contiguous(table: FakeTable) -> None:
    claim = claim_of([batch(7, 8, from_offset=5, next_offset=20), batch(20, 12, next_offset=40)], initial_offset=5)
    await consume(sink_to(table), FakeSession(), claim)
    assert ranges(table) == [(5, 22), (22, 40)]


async def test_links_are_numbered_with_distinct_attempts(table: FakeTable) -> None:
    await consume(sink_to(table), FakeSession(), claim_of([batch(0, 20)]))
    assert [str(link) for link in table.chains[KEY]] == [
        "link 1 of sarameya/orders-0 [0, 10)",
        "link 2 of sarameya/orders-0 [10, 20)",
    ]
    origin = Origin(group="flights", topic_id="0123456789abcdef" * 2, cluster_id="fake-cluster", begin=0)
    assert {link.origin for link in table.chains[KEY]} == {origin}
    assert len({link.attempt for link in table.chains[KEY]}) == 2


async def test_offsets_are_marked_after_the_table_is_read_back(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim, session = FakeClaim(), FakeSession()
    nursery.start_soon(consume, sink_to(table, FakeEngine(seconds=50)), session, claim)
    table.unreadable = [OSError("away")]
    claim.send(batch(0, 10))
    await trio.sleep(50.4)
    assert ranges(table) == [(0, 10)]
    assert session.marks == []
    await trio.sleep(1)
    assert session.marks == [("orders", 0, 10)]
    assert CommitNote.from_metadata(session.metadata[ORDERS]) == CommitNote.of(table.chains[KEY][0])
    assert len(table.landings) == 1
    claim.end()


async def test_claim_fills_the_next_batch_during_a_flush(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim, engine = FakeClaim(), FakeEngine(seconds=50)
    nursery.start_soon(consume, sink_to(table, engine), FakeSession(), claim)
    claim.send(*(batch(10 * n, 10) for n in range(5)))
    await trio.sleep(49)
    assert claim.waiting == 3
    claim.end()
    await trio.sleep(1000)
    assert engine.most_running == 1
    assert ranges(table) == [(0, 10), (10, 20), (20, 30), (30, 40), (40, 50)]


async def test_buffered_records_count_against_the_budget(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim, engine = FakeClaim(), FakeEngine(seconds=50)
    nursery.start_soon(consume, sink_to(table, engine), FakeSession(), claim)
    claim.send(batch(0, 10), batch(10, 4))
    size = sum(batch(first, count).to_arrow().nbytes for first, count in ((0, 10), (10, 4)))
    await trio.sleep(49)
    assert claim.held == pytest.approx(size, rel=0.1)
    claim.end()
    await trio.sleep(200)
    assert claim.held == 0


async def test_claim_without_budget_flushes_early(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim = FakeClaim(budget=batch(0, 4).to_arrow().nbytes)
    nursery.start_soon(consume, sink_to(table), FakeSession(), claim)
    claim.send(batch(0, 3))
    await trio.sleep(1)
    assert table.offsets == []
    claim.send(batch(3, 3))
    await trio.sleep(1)
    assert table.offsets == [[0, 1, 2, 3, 4, 5]]
    claim.end()


async def test_partitions_flush_concurrently(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    engine = FakeEngine(seconds=50, max_jobs=3)
    async with sink_to(table, engine) as sink:
        async with trio.open_nursery() as claims:
            for partition in range(4):
                claims.start_soon(consume_in, sink, FakeSession(), ended_claim(partition))
            await trio.sleep(60)
            assert engine.most_running == 3
            assert len(table.chains) == 3
    assert len(table.chains) == 4


async def test_partitions_share_a_spark_job(tmp_path: Path, autojump_clock: MockClock) -> None:
    table = FakeTable(tmp_path, landings_per_job=3)
    async with sink_to(table) as sink:
        async with trio.open_nursery() as claims:
            for partition in range(7):
                claims.start_soon(consume_in, sink, FakeSession(), ended_claim(partition))
    assert sorted(table.jobs) == [1, 3, 3]
    assert len(table.chains) == 7


async def test_remainder_does_not_join_its_own_partitions_flush(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The remainder is more than half of a batch."""
    table, claim = FakeTable(tmp_path, landings_per_job=10), FakeClaim()
    nursery.start_soon(consume, sink_to(table), FakeSession(), claim)
    claim.send(batch(0, 10), batch(10, 7))
    await trio.sleep(100)
    assert [round(time) for time in table.times] == [0, 30]
    claim.end()


async def test_half_full_batch_joins_a_due_flush(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    table = FakeTable(tmp_path, landings_per_job=10)
    claims = [FakeClaim(partition=partition) for partition in range(3)]
    async with sink_to(table) as sink:
        for claim in claims:
            nursery.start_soon(consume_in, sink, FakeSession(), claim)
        claims[0].send(batch(0, 10))
        claims[1].send(batch(0, 5, partition=1))
        claims[2].send(batch(0, 4, partition=2))
        await trio.sleep(1)
        assert sorted(len(offsets) for offsets in table.offsets) == [5, 10]
        assert table.jobs == [2]
        for claim in claims:
            claim.end()
        await trio.sleep(1)


async def test_passing_failure_is_retried_with_the_same_number(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim, session = FakeClaim(), FakeSession()
    nursery.start_soon(consume, sink_to(table), session, claim)
    await trio.sleep(1)
    table.error = OSError("disk full")
    claim.send(batch(0, 10))
    await trio.sleep(300)
    assert (table.offsets, session.marks) == ([], [])
    assert len({landing.link.attempt for landing in table.landings}) == len(table.landings) > 5
    table.error = None
    await trio.sleep(31)
    assert table.offsets == [list(range(10))]
    assert session.marks == [("orders", 0, 10)]
    claim.end()


async def test_failure_beyond_the_retry_limit_is_raised(
    table: FakeTable, tmp_path: Path, autojump_clock: MockClock
) -> None:
    session = FakeSession()
    expected = r"^link 1 of sarameya/orders-0 \[0, 10\) did not land; retries failed for \d+ s: OSError: disk full$"
    claim = FakeClaim()
    claim.send(batch(0, 10))
    async with sink_to(table, retry_for=60.0) as sink:
        table.error = OSError("disk full")
        with pytest.raises(LandingError, match=expected):
            await consume_in(sink, session, claim)
    assert 30 < trio.current_time() <= 60
    assert session.marks == []
    assert os.listdir(tmp_path) == []


async def test_failing_flush_of_a_revoked_partition_is_abandoned(
    table: FakeTable, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    session = FakeSession()
    async with sink_to(table) as sink:
        table.error = OSError("disk full")
        await consume_in(sink, session, claim_of([batch(0, 3)]))
    assert trio.current_time() < 2
    assert len(table.landings) == 2
    assert session.marks == []
    assert "orders-0: records that have not landed are left to the next owner" in caplog.text


async def test_flush_with_a_lost_reply_has_landed(table: FakeTable, autojump_clock: MockClock) -> None:
    session = FakeSession()
    table.late_error = ConnectionError("gone")
    await consume(sink_to(table), session, claim_of([batch(0, 3)]))
    assert (len(table.landings), table.offsets) == (1, [[0, 1, 2]])
    assert session.marks == [("orders", 0, 3)]


async def test_flush_logs_rows_offsets_table_and_seconds(
    table: FakeTable, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sarameya.spark")
    await consume(sink_to(table), FakeSession(), claim_of([batch(7, 3)], initial_offset=7))
    assert f"orders-0: 3 rows (offsets 7-9) written to {table.name} in 0.00 s" in caplog.text


async def test_flush_that_lost_the_race_continues_after_the_winner(
    table: FakeTable, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A zombie's batch is longer than the owner's, and lands first."""

    def zombie(landings: Sequence[Landing]) -> None:
        (landing,) = landings
        table.append(attrs.evolve(landing.link, to_offset=14, attempt="zombie"), list(range(14)))

    session = FakeSession()
    table.before = zombie
    await consume(sink_to(table), session, claim_of([batch(0, 10), batch(10, 10)]))
    assert table.offsets == [list(range(14)), list(range(14, 20))]
    assert session.marks == [("orders", 0, 14), ("orders", 0, 20)]
    assert "another owner has appended link 1 of sarameya/orders-0 [0, 14) first" in caplog.text


async def test_flush_that_partly_lost_the_race_lands_the_rest(table: FakeTable) -> None:
    def zombie(landings: Sequence[Landing]) -> None:
        (landing,) = landings
        table.append(attrs.evolve(landing.link, to_offset=4, records=4, attempt="zombie"), list(range(4)))

    session = FakeSession()
    table.before = zombie
    await consume(sink_to(table), session, claim_of([batch(0, 10)]))
    assert table.offsets == [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]]
    assert session.marks == [("orders", 0, 4), ("orders", 0, 10)]


async def test_rest_without_records_lands_without_a_file(table: FakeTable) -> None:
    """The owner's batch ends with control records, which have offsets. The zombie has landed all other records."""

    def zombie(landings: Sequence[Landing]) -> None:
        (landing,) = landings
        table.append(attrs.evolve(landing.link, to_offset=10, attempt="zombie"), list(range(10)))

    session = FakeSession()
    table.before = zombie
    await consume(sink_to(table), session, claim_of([batch(0, 10, next_offset=12)]))
    assert ranges(table) == [(0, 12), (10, 12)]
    assert table.landings[-1].staged is None
    assert session.marks == [("orders", 0, 10), ("orders", 0, 12)]


async def test_records_landed_by_others_free_the_buffer(table: FakeTable, autojump_clock: MockClock) -> None:
    def zombie(landings: Sequence[Landing]) -> None:
        (landing,) = landings
        table.append(attrs.evolve(landing.link, to_offset=20, attempt="zombie"), list(range(20)))

    table.before = zombie
    with trio.fail_after(60):
        claim = claim_of([batch(0, 10), batch(10, 10), batch(20, 10)])
        await consume(sink_to(table, FakeEngine(seconds=1)), FakeSession(), claim)
    assert table.offsets == [list(range(20)), list(range(20, 30))]


async def test_cancelled_flush_marks_nothing_and_cancels_its_job(
    table: FakeTable, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    session, engine = FakeSession(), FakeEngine(seconds=50)
    async with sink_to(table, engine) as sink:
        with trio.move_on_after(10) as scope:
            await consume_in(sink, session, claim_of([batch(0, 10)]))
        assert scope.cancelled_caught
        assert trio.current_time() == 10
        assert engine.running == 0
    assert session.marks == []
    [attempt] = engine.cancelled
    assert cancellation_logs(caplog) == [
        (
            "WARNING",
            f"link 1 of sarameya/orders-0 [0, 10), attempt {attempt}, was cancelled while Spark landed it, and may "
            "land or not; the next owner of the partition reads the table",
        )
    ]


async def test_cancelled_flush_that_hangs_is_logged_and_abandoned(
    table: FakeTable, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with sink_to(table, StubbornEngine(seconds=50)) as sink:
        with trio.move_on_after(10):
            await consume_in(sink, FakeSession(), claim_of([batch(0, 10)]))
        assert trio.current_time() == 12
    [(level, text)] = cancellation_logs(caplog)
    assert level == "WARNING"
    assert "[0, 10), attempt " in text
    assert "may land or not" in text


@pytest.mark.parametrize("has_landed", [True, False])
async def test_flush_cancelled_after_its_end_logs_the_outcome(
    tmp_path: Path, has_landed: bool, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Table(FakeTable):
        def links(self, spark: Any, key: ChainKey, since: int) -> Sequence[Link]:
            scope.cancel()
            return super().links(spark, key, since)

    caplog.set_level(logging.INFO, "sarameya.spark")
    table = Table(tmp_path)
    async with sink_to(table) as sink:
        table.error = None if has_landed else OSError("disk full")
        with trio.CancelScope() as scope:
            await consume_in(sink, FakeSession(), claim_of([batch(0, 10)]))
    attempt, outcome = table.landings[0].link.attempt, "has landed" if has_landed else "has not landed"
    expected = f"link 1 of sarameya/orders-0 [0, 10), attempt {attempt}, was cancelled: it {outcome}"
    assert cancellation_logs(caplog) == [("INFO", expected)]


async def test_flush_cancelled_before_its_start_logs_nothing(
    table: FakeTable, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    engine = FakeEngine(seconds=50, max_jobs=1)
    async with sink_to(table, engine) as sink:
        async with trio.open_nursery() as claims:
            claims.start_soon(consume_in, sink, FakeSession(), ended_claim(0))
            await trio.sleep(1)
            with trio.move_on_after(10):
                await consume_in(sink, FakeSession(), ended_claim(1))
    assert [key.partition for key in table.chains] == [0]
    assert cancellation_logs(caplog) == []


async def test_flush_cancelled_at_its_start_does_not_run(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The order of the two tasks is random, so the test repeats."""

    class Table(FakeTable):
        scope: trio.CancelScope
        reads = 0

        @property
        def landings_per_job(self) -> int:
            self.reads += 1
            if self.reads == 3:  # at this read the waiting flush is taken
                self.scope.cancel()
            return 1

        @landings_per_job.setter
        def landings_per_job(self, number: int) -> None: ...

    times = 20
    for _ in range(times):
        table = Table(tmp_path)
        async with sink_to(table, FakeEngine(seconds=1)) as sink:
            with trio.CancelScope() as table.scope:
                await consume_in(sink, FakeSession(), claim_of([batch(0, 10)]))
            await trio.sleep(10)
        assert table.landings == []
    assert len(cancellation_logs(caplog)) == times


class StubbornEngine(FakeEngine):
    """An engine that ignores cancellation."""

    async def run(self, work: Any, *, tag: str) -> Any:
        with trio.CancelScope(shield=True):
            return await super().run(work, tag=tag)


def cancellation_logs(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the log records of cancelled flushes, with their levels."""
    return [(record.levelname, record.message) for record in caplog.records if "cancelled" in record.message]


async def test_neighbour_of_a_cancelled_partition_flushes_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    table, session = FakeTable(tmp_path, landings_per_job=2), FakeSession()
    async with sink_to(table, FakeEngine(seconds=50)) as sink:
        async with trio.open_nursery() as claims:
            claims.start_soon(consume_in, sink, session, ended_claim(0))
            with trio.move_on_after(10):
                await consume_in(sink, session, ended_claim(1))
            assert table.jobs == []
    assert [key.partition for key in table.chains] == [0]
    assert session.marks == [("orders", 0, 10)]


async def test_claim_without_time_for_a_flush_leaves_its_records(
    table: FakeTable, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sarameya.spark")
    claim, session = FakeClaim(), FakeSession()
    async with sink_to(table, FakeEngine(seconds=50)) as sink:
        async with trio.open_nursery() as claims:
            claims.start_soon(consume_in, sink, session, claim)
            claim.send(batch(0, 10))
            await trio.sleep(60)
            claim.send(batch(10, 5))
            claims.cancel_scope.deadline = trio.current_time() + 62
            await trio.sleep(1)
            claim.end()
    assert session.marks == [("orders", 0, 10)]
    assert trio.current_time() == 61
    assert "5 rows are left to the next owner: not enough time for a flush, which usually takes 50.0 s" in caplog.text
    assert ": 61.0 s are left" in caplog.text


@pytest.mark.parametrize(
    ("jobs", "shared", "landed"),
    [(1, 1, 2), (2, 1, 4), (1, 3, 6), (1, 2, 4)],
    ids=["one at a time", "two at a time", "three a job", "two a job"],
)
async def test_claims_ending_together_flush_as_time_allows(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, jobs: int, shared: int, landed: int
) -> None:
    """A landing takes 10 seconds. More than 25 seconds are left, and less than 37."""
    caplog.set_level(logging.INFO, "sarameya.spark")
    table, session = FakeTable(tmp_path, landings_per_job=shared), FakeSession()
    claims = [FakeClaim(partition=partition) for partition in range(7)]
    async with sink_to(table, FakeEngine(seconds=10, max_jobs=jobs)) as sink, trio.open_nursery() as nursery:
        for claim in claims:
            nursery.start_soon(consume_in, sink, session, claim)
            claim.send(batch(0, 10, partition=claim.partition))
        await trio.sleep(95)
        assert len(table.offsets) == 7
        for claim in claims:
            claim.send(batch(10, 4, partition=claim.partition))
        await trio.sleep(1)
        nursery.cancel_scope.deadline = trio.current_time() + 27
        for claim in claims:
            claim.end()
    assert not nursery.cancel_scope.cancelled_caught
    assert len(table.offsets) == 7 + landed
    assert cancellation_logs(caplog) == [], "no flush starts that has no time to end"
    assert caplog.text.count("4 rows are left to the next owner: not enough time") == 7 - landed
    if shared == 1:
        assert "10.0 s (flushes before it: 2): 27.0 s are left" in caplog.text


async def test_ending_claim_waits_for_a_running_flush(table: FakeTable, autojump_clock: MockClock) -> None:
    claims, session = [FakeClaim(partition=partition) for partition in range(2)], FakeSession()
    async with sink_to(table, FakeEngine(seconds=10, max_jobs=1)) as sink, trio.open_nursery() as nursery:
        for claim in claims:
            nursery.start_soon(consume_in, sink, session, claim)
            claim.send(batch(0, 10, partition=claim.partition))
        await trio.sleep(45)
        claims[0].send(batch(10, 10))
        claims[1].send(batch(10, 4, partition=1))
        await trio.sleep(1)
        nursery.cancel_scope.deadline = trio.current_time() + 26
        for claim in claims:
            claim.end()
    assert sorted(len(offsets) for offsets in table.offsets) == [4, 10, 10, 10]


async def test_missing_records_stop_the_claim(table: FakeTable) -> None:
    session = FakeSession()
    with pytest.raises(LostRecordsError, match=r"orders-0: the records \[10, 15\) were deleted before they landed"):
        await consume(sink_to(table), session, claim_of([batch(0, 10), batch(15, 10)]))
    assert session.marks == [("orders", 0, 10)]


async def test_missing_records_become_a_gap_if_configured(table: FakeTable) -> None:
    session = FakeSession()
    sink = sink_to(table, on_missing="leave_out")
    await consume(sink, session, claim_of([batch(0, 4), batch(15, 6)]))
    assert [(link.kind, link.from_offset, link.to_offset) for link in table.chains[KEY]] == [
        (Kind.RECORDS, 0, 4),
        (Kind.GAP, 4, 15),
        (Kind.RECORDS, 15, 21),
    ]
    assert session.marks[-1] == ("orders", 0, 21)


async def test_records_skipped_by_a_moved_commit_become_a_gap(
    table: FakeTable, caplog: pytest.LogCaptureFixture
) -> None:
    await consume(sink_to(table), FakeSession(), claim_of([batch(0, 10)]))
    session = FakeSession()
    with pytest.raises(MovedCommitError, match=r"offset is 25, beyond the link's end.*on_missing = 'leave_out'"):
        async with sink_to(table) as sink:
            await consume_in(sink, session, FakeClaim(), CommittedOffset(25))
    assert session.marks == []
    async with sink_to(table, on_missing="leave_out") as sink:
        await consume_in(sink, session, claim_of([batch(25, 6)]), CommittedOffset(25))
    assert [(link.kind, link.from_offset, link.to_offset, link.reason) for link in table.chains[KEY]] == [
        (Kind.RECORDS, 0, 10, ""),
        (Kind.GAP, 10, 25, "the group's commit was moved beyond them"),
        (Kind.RECORDS, 25, 31, ""),
    ]
    assert session.marks[-1] == ("orders", 0, 31)
    assert "orders-0: the records [10, 25) are left out: the group's commit was moved beyond them" in caplog.text


async def test_truncated_log_stops_the_claim(table: FakeTable) -> None:
    with pytest.raises(LostRecordsError, match="offset 5 comes after 10: the log was truncated"):
        await consume(sink_to(table), FakeSession(), claim_of([batch(0, 10), batch(5, 10)]))


async def test_position_after_control_records_is_marked_with_the_note(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim, session = FakeClaim(), FakeSession()
    nursery.start_soon(consume, sink_to(table), session, claim)
    claim.send(batch(0, 10))
    await trio.sleep(1)
    claim.position = 12
    await trio.sleep(31)
    assert session.marks == [("orders", 0, 10), ("orders", 0, 12)]
    assert CommitNote.from_metadata(session.metadata[ORDERS]) == CommitNote.of(table.chains[KEY][0])
    claim.end()


async def test_second_owner_starts_after_the_tables_head(table: FakeTable) -> None:
    first, second = FakeSession(), FakeSession()
    await consume(sink_to(table), first, claim_of([batch(0, 10)]))
    async with sink_to(table) as sink:
        await consume_in(sink, second, claim_of([batch(10, 5)]), CommittedOffset(0))
    assert table.offsets == [list(range(10)), list(range(10, 15))]
    assert second.marks == [("orders", 0, 10), ("orders", 0, 15)]


async def test_dropped_table_stops_the_next_owner(table: FakeTable) -> None:
    session = FakeSession()
    await consume(sink_to(table), session, claim_of([batch(0, 10)]))
    table.chains.clear()
    async with sink_to(table) as sink:
        with pytest.raises(RewoundTableError, match="the table has no link, but the group has committed link 1"):
            await consume_in(sink, session, FakeClaim(), CommittedOffset(10, session.metadata[ORDERS]))


async def test_rows_of_the_transform_are_written(table: FakeTable) -> None:
    def even(frame: FakeFrame) -> FakeFrame:
        return FakeFrame(frame.table.filter([offset % 2 == 0 for offset in frame.table["offset"].to_pylist()]))

    session = FakeSession()
    await consume(sink_to(table, transform=even), session, claim_of([batch(0, 6)]))
    assert table.offsets == [[0, 2, 4]]
    assert session.marks == [("orders", 0, 6)]


async def test_raising_transform_ends_the_claim_unmarked(table: FakeTable) -> None:
    def broken(frame: FakeFrame) -> FakeFrame:
        raise KeyError("no such column")

    session = FakeSession()
    with pytest.raises(LandingError, match="KeyError: 'no such column'"):
        await consume(sink_to(table, transform=broken), session, claim_of([batch(0, 6)]))
    assert session.marks == []


async def test_sink_outside_its_context_refuses_the_session(table: FakeTable) -> None:
    with pytest.raises(HandlerError, match="must be entered first: async with SparkSink"):
        await sink_to(table).setup(FakeSession())


async def test_entered_sink_runs_its_engine(table: FakeTable) -> None:
    engine = FakeEngine()
    async with sink_to(table, engine) as sink:
        assert engine.inside
        await sink.setup(FakeSession())
    assert not engine.inside


async def test_unusable_table_prevents_the_spark_start(table: FakeTable) -> None:
    table.error = HandlerError("read-only")
    engine = FakeEngine()
    with pytest.raises(HandlerError, match="read-only"):
        async with sink_to(table, engine):
            pass
    assert not engine.inside


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            Py4JJavaError("An error occurred while calling o61.tableExists.\n: no route to the catalog\n\tat org.Hive"),
            "Py4JJavaError: no route to the catalog; does Spark have the jars and catalogs that the table needs "
            "(spark.conf)?",
        ),
        (TimeoutError("timed out"), "TimeoutError: timed out"),
    ],
)
async def test_spark_error_at_the_start_is_one_line_with_a_hint(
    table: FakeTable, error: Exception, expected: str
) -> None:
    table.error = error
    with pytest.raises(LandingError) as raised:
        async with sink_to(table):
            pass
    assert (str(raised.value), raised.value.__cause__) == (f"fake:table cannot be opened: {expected}", error)


async def test_position_after_aborted_records_is_marked_without_links(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    claim, session = FakeClaim(), FakeSession()
    nursery.start_soon(consume, sink_to(table), session, claim)
    await trio.sleep(1)
    claim.position = 2
    await trio.sleep(31)
    assert (session.marks, session.metadata) == ([("orders", 0, 2)], {ORDERS: ""})
    claim.end()


async def test_failed_flush_is_not_retried_after_lost_membership(
    table: FakeTable, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    claim, session = FakeClaim(), FakeSession()
    async with sink_to(table, FakeEngine(seconds=5)) as sink:
        async with trio.open_nursery() as claims:
            claims.start_soon(consume_in, sink, session, claim)
            table.error = OSError("disk full")
            claim.send(batch(0, 10))
            await trio.sleep(2)
            session.is_lost = True
    assert len(table.landings) == 1
    assert session.marks == []
    assert "orders-0: records that have not landed are left to the next owner" in caplog.text


async def test_idle_head_is_restated_before_the_table_forgets_it(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = FakeTable(tmp_path)
    table.restate_after = 100.0
    monkeypatch.setattr(
        "sarameya_handlers.spark.sink.partition_lander.wall_clock", lambda: int(trio.current_time() * 1000)
    )
    claim, session = FakeClaim(), FakeSession()
    nursery.start_soon(consume, sink_to(table), session, claim)
    claim.send(batch(0, 10))
    await trio.sleep(90)
    assert len(table.chains[KEY]) == 1
    await trio.sleep(150)
    assert [(link.kind, link.from_offset, link.to_offset) for link in table.chains[KEY]] == [
        (Kind.RECORDS, 0, 10),
        (Kind.RESTATED, 10, 10),
    ]
    assert CommitNote.from_metadata(session.metadata[ORDERS]) == CommitNote.of(table.chains[KEY][-1])
    claim.end()


async def test_heads_of_revoked_partitions_are_stored(table: FakeTable) -> None:
    session = FakeSession()
    async with sink_to(table) as sink:
        await consume_in(sink, session, claim_of([batch(0, 10)]))
        await consume_in(sink, session, claim_of([], partition=1))
        await sink.partitions_revoked(session, [ORDERS, TopicPartition("orders", 1)])
        assert table.resting == [table.chains[KEY][-1]]
        await sink.partitions_revoked(session, [ORDERS])
        assert len(table.resting) == 1


async def test_heads_of_lost_partitions_are_not_stored(table: FakeTable) -> None:
    session = FakeSession()
    async with sink_to(table) as sink:
        await consume_in(sink, session, claim_of([batch(0, 10)]))
        await sink.partitions_lost(session, [ORDERS])
        await sink.partitions_revoked(session, [ORDERS])
    assert table.resting == []


async def test_revocation_runs_no_spark_if_the_table_stores_no_heads(table: FakeTable) -> None:
    table.states_heads = False
    session, engine = FakeSession(), StuckRestEngine()
    async with sink_to(table, engine) as sink:
        await consume_in(sink, session, claim_of([batch(0, 10)]))
        await sink.partitions_revoked(session, [ORDERS])
    assert (engine.rests, table.resting) == (0, [])


@pytest.mark.parametrize(("timeout", "taken"), [(60.0, 5.0), (4.0, 2.0)])
async def test_revocation_does_not_wait_for_a_slow_spark(
    table: FakeTable, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, timeout: float, taken: float
) -> None:
    caplog.set_level(logging.INFO, "sarameya.spark")
    session, engine = FakeSession(), StuckRestEngine()
    async with sink_to(table, engine) as sink:
        await consume_in(sink, session, claim_of([batch(0, 10)]))
        began = trio.current_time()
        with trio.fail_after(timeout):
            await sink.partitions_revoked(session, [ORDERS])
        assert trio.current_time() - began == taken
    assert trio.current_time() - began == taken + engine.cancel_seconds, "the storing that has started is cancelled"
    assert (engine.rests, table.resting) == (1, [])
    (logged,) = (record for record in caplog.records if "not stored the heads of its chains in time" in record.message)
    assert logged.levelno == logging.INFO


@pytest.mark.parametrize(
    ("error", "level"), [(SparkGoneError("gone"), logging.INFO), (PermissionError("no ALTER"), logging.WARNING)]
)
async def test_failure_to_store_heads_is_logged(
    table: FakeTable, caplog: pytest.LogCaptureFixture, error: Exception, level: int
) -> None:
    caplog.set_level(logging.INFO, "sarameya.spark")
    session = FakeSession()
    table.resting_error = error
    async with sink_to(table) as sink:
        await consume_in(sink, session, claim_of([batch(0, 10)]))
        await sink.partitions_revoked(session, [ORDERS])
    (logged,) = (record for record in caplog.records if "has not stored the heads of its chains: " in record.message)
    assert logged.levelno == level


@pytest.mark.parametrize("table", [ParquetTable, DeltaTable, IcebergTable, ForeachBatch])
def test_tables_that_store_heads_declare_it(table: type[Table]) -> None:
    assert table.states_heads is (table.rest is not Table.rest)


class StuckRestEngine(FakeEngine):
    """An engine that never completes the storing of heads, and takes a while to be cancelled."""

    rests, cancel_seconds = 0, 3.0

    async def run(self, work: Callable[[Any, Any], Any], *, tag: str) -> Any:
        if tag.startswith("rest-"):
            self.rests += 1
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(self.cancel_seconds)
        return await super().run(work, tag=tag)


async def test_failed_head_lookup_is_retried(
    table: FakeTable, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    await consume(sink_to(table), FakeSession(), claim_of([batch(0, 10)]))
    table.unknown_heads = [OSError("503 Slow Down"), TimeoutError("no answer"), SparkGoneError("the server is gone")]
    async with sink_to(table) as sink:
        await consume_in(sink, FakeSession(), claim_of([batch(10, 5)]), CommittedOffset(0))
    assert trio.current_time() == 0.5 + 1 + 2
    assert table.offsets == [list(range(10)), list(range(10, 15))]
    expected = "fake:table: the heads of its chains cannot be read; retrying in 0.5 s: the server is gone"
    assert expected in caplog.text


async def test_head_lookup_beyond_the_retry_limit_ends_the_session(table: FakeTable, autojump_clock: MockClock) -> None:
    expected = r"^fake:table: the heads of its chains cannot be read; retries failed for \d+ s: OSError: 503 Slow Down$"
    table.unknown_heads = [OSError("503 Slow Down")] * 100
    async with sink_to(table, retry_for=60.0) as sink:
        with pytest.raises(LandingError, match=expected):
            await sink.partitions_assigned(FakeSession(), [ORDERS])
    assert 30 < trio.current_time() <= 60


@pytest.mark.parametrize(
    "error", [RewoundTableError("it was restored"), SparkGoneError("yours is gone", is_ours=False)], ids=repr
)
async def test_permanent_head_lookup_error_is_raised_unchanged(table: FakeTable, error: Exception) -> None:
    table.unknown_heads = [error]
    async with sink_to(table) as sink:
        with pytest.raises(type(error)) as raised:
            await sink.partitions_assigned(FakeSession(), [ORDERS])
    assert raised.value is error


async def test_spark_error_at_assignment_is_one_line(table: FakeTable) -> None:
    table.unknown_heads = [AnalysisException("An error occurred while calling o61.sql.\n: no such column\n\tat java")]
    async with sink_to(table) as sink:
        with pytest.raises(LandingError) as raised:
            await sink.partitions_assigned(FakeSession(), [ORDERS])
    assert str(raised.value) == "fake:table: the heads of its chains cannot be read: AnalysisException: no such column"


class Decoding(Shaping):
    """A shape that fails for records with the value "bad", as Spark would. It names none of them in advance."""

    def frame(self, spark: Any, landing: Landing) -> Any:
        frame = super().frame(spark, landing)
        if b"bad" in frame.table["value"].to_pylist():
            raise ArithmeticException("bad record")
        return frame

    def unreadable(self, spark: Any, landing: Landing) -> list[Any]:
        return []


class ArithmeticException(Exception):
    """Recognized by its name as Spark's."""


class FakeDeadLetters(DeadLetters):
    def __init__(self) -> None:
        self.letters: list[tuple[int, bytes | None]] = []
        self.fails = 0

    @property
    def name(self) -> str:
        return "a list"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def write(self, link: Link, letters: Sequence[DeadLetter]) -> None:
        await trio.lowlevel.checkpoint()
        if self.fails:
            self.fails -= 1
            raise DeadLetterError("no room")
        self.letters += [(letter.offset, letter.value) for letter in letters]


def poisoned(partition: int, *bad: int) -> FakeClaim:
    """Return a claim with bad records at these offsets, which then ends."""
    claim = FakeClaim(partition=partition)
    claim.send(poisoned_batch(partition, *bad))
    claim.end()
    return claim


def poisoned_batch(partition: int, *bad: int) -> MessageBatch:
    """Return ten records; those at the offsets `bad` are bad."""
    messages = [
        message(offset, partition=partition, value=b"bad" if offset in bad else b"good") for offset in range(10)
    ]
    return MessageBatch("orders", partition, messages, 10)


async def test_poison_becomes_dead_letters_and_the_rest_lands(table: FakeTable, autojump_clock: MockClock) -> None:
    session, dead = FakeSession(), FakeDeadLetters()
    await consume(sink_to(table, shape=Decoding(), dead_letters=dead), session, poisoned(0, 3, 7))
    assert dead.letters == [(3, b"bad"), (7, b"bad")]
    assert table.offsets == [[0, 1, 2, 4, 5, 6, 8, 9]]
    (link,) = table.chains[KEY]
    assert (link.from_offset, link.to_offset) == (0, 10)
    assert (link.records, link.dead_letters, link.is_transformed) == (10, 2, False)
    assert session.marks == [("orders", 0, 10)]


class Requiring(FakeTable):
    """A table that refuses rows with the value "bad", like a constraint, also when it only evaluates them."""

    def land(self, spark: Any, landings: Sequence[Landing], shape: Any, checkpoint: Any) -> None:
        for landing in landings:
            self.require(shape.frame(spark, landing))
        super().land(spark, landings, shape, checkpoint)

    def evaluator(self, spark: Any) -> Any:
        return self.require

    def require(self, frame: Any) -> None:
        if b"bad" in frame.table["value"].to_pylist():
            raise ArithmeticException("constraint violated")


async def test_records_refused_by_the_table_become_dead_letters(tmp_path: Path, autojump_clock: MockClock) -> None:
    table, session, dead = Requiring(tmp_path), FakeSession(), FakeDeadLetters()
    await consume(sink_to(table, dead_letters=dead), session, poisoned(0, 3, 7))
    assert dead.letters == [(3, b"bad"), (7, b"bad")]
    assert table.offsets == [[0, 1, 2, 4, 5, 6, 8, 9]]
    assert session.marks == [("orders", 0, 10)]


@pytest.mark.parametrize(
    "trouble",
    [
        SparkGoneError("the JVM has died"),
        ConnectError("the registry does not answer"),
        OSError("no space to stage in"),
        RuntimeError("503, whatever that means"),
    ],
    ids=lambda trouble: type(trouble).__name__,
)
async def test_passing_failure_of_the_poison_search_is_retried(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: MockClock, trouble: Exception
) -> None:
    class Troubled(Requiring):
        trouble: Exception | None = None

        def evaluator(self, spark: Any) -> Any:
            if self.trouble:
                raise self.trouble
            return super().evaluator(spark)

    table, claim, session, dead = Troubled(tmp_path), FakeClaim(), FakeSession(), FakeDeadLetters()
    table.trouble = trouble
    nursery.start_soon(consume, sink_to(table, dead_letters=dead), session, claim)
    claim.send(poisoned_batch(0, 3))
    await trio.sleep(300)
    assert (dead.letters, table.chains, session.marks) == ([], {}, [])
    table.trouble = None
    await trio.sleep(31)
    assert dead.letters == [(3, b"bad")]
    assert session.marks == [("orders", 0, 10)]
    claim.end()


async def test_unexplained_failure_without_records_is_retried(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """An example is a transform that joins a table on an object store, which refuses the read."""

    class Refused(FakeTable):
        def evaluator(self, spark: Any) -> Any:
            def evaluate(frame: Any) -> None:
                if self.error:
                    raise self.error

            return evaluate

    table, claim, session = Refused(tmp_path), FakeClaim(), FakeSession()
    nursery.start_soon(consume, sink_to(table), session, claim)
    await trio.sleep(1)
    table.error = RuntimeError("503 slow down")
    claim.send(batch(0, 10))
    await trio.sleep(300)
    assert session.marks == []
    table.error = None
    await trio.sleep(31)
    assert session.marks == [("orders", 0, 10)]
    claim.end()


async def test_lasting_failure_of_the_poison_search_ends_the_session(tmp_path: Path, autojump_clock: MockClock) -> None:
    class Troubled(Requiring):
        def evaluator(self, spark: Any) -> Any:
            raise ConnectError("the registry does not answer")

    claim = FakeClaim()
    claim.send(poisoned_batch(0, 3))
    expected = r"\[0, 10\) did not land; retries failed for \d+ s: ConnectError: the registry does not answer"
    with pytest.raises(LandingError, match=expected):
        await consume(sink_to(Troubled(tmp_path), retry_for=60.0), FakeSession(), claim)
    assert 30 < trio.current_time() <= 60


async def test_batch_of_poison_alone_makes_an_empty_link(table: FakeTable, autojump_clock: MockClock) -> None:
    session, dead = FakeSession(), FakeDeadLetters()
    claim = FakeClaim()
    claim.send(MessageBatch("orders", 0, [message(0, value=b"bad")], 1))
    claim.end()
    await consume(sink_to(table, shape=Decoding(), dead_letters=dead), session, claim)
    assert (dead.letters, table.offsets) == ([(0, b"bad")], [[]])
    assert session.marks == [("orders", 0, 1)]


async def test_poison_without_dead_letters_stops_the_partition(table: FakeTable, autojump_clock: MockClock) -> None:
    session = FakeSession()
    with pytest.raises(PoisonError, match="the record at offset 3 of orders-0 cannot land, and 1 more of this batch"):
        await consume(sink_to(table, shape=Decoding()), session, poisoned(0, 3, 7))
    assert (table.chains, session.marks) == ({}, [])


async def test_partition_waits_for_its_dead_letters(
    table: FakeTable, nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    claim, session, dead = FakeClaim(), FakeSession(), FakeDeadLetters()
    dead.fails = 10**6
    nursery.start_soon(consume, sink_to(table, shape=Decoding(), dead_letters=dead), session, claim)
    claim.send(poisoned_batch(0, 3))
    for _ in range(120):
        await trio.sleep(10)
        assert (dead.letters, table.chains, session.marks) == ([], {}, [])
    assert dead.fails < 10**6 - 30
    assert "cannot write 1 dead letters; the partition waits; retrying in 30.0 s" in caplog.text
    dead.fails = 0
    await trio.sleep(31)
    assert dead.letters == [(3, b"bad")]
    assert table.offsets == [[0, 1, 2, 4, 5, 6, 7, 8, 9]]
    assert session.marks == [("orders", 0, 10)]
    claim.end()


async def test_revoked_partition_retries_dead_letters_quickly(table: FakeTable, autojump_clock: MockClock) -> None:
    session, dead = FakeSession(), FakeDeadLetters()
    dead.fails = 4
    await consume(sink_to(table, shape=Decoding(), dead_letters=dead), session, poisoned(0, 3))
    assert trio.current_time() == 4 * 0.5
    assert dead.letters == [(3, b"bad")]
    assert session.marks == [("orders", 0, 10)]


async def land_four_partitions_one_poisoned(table: FakeTable, session: FakeSession, dead: FakeDeadLetters) -> None:
    """Land four partitions, one of them with a bad record, which becomes a dead letter."""
    async with sink_to(table, shape=Decoding(), dead_letters=dead) as sink:
        async with trio.open_nursery() as claims:
            for partition in range(4):
                claims.start_soon(consume_in, sink, session, poisoned(partition, *([5] if partition == 2 else [])))
    assert dead.letters == [(5, b"bad")]
    assert sorted(len(offsets) for offsets in table.offsets) == [9, 10, 10, 10]


async def test_neighbours_of_poison_wait_for_an_unknown_outcome(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The Spark job names the partition at fault, but the table cannot say whether the flush landed."""
    table, session, dead = FakeTable(tmp_path, landings_per_job=4), FakeSession(), FakeDeadLetters()
    table.unreadable = [TimeoutError("no answer")]
    await land_four_partitions_one_poisoned(table, session, dead)
    assert sorted(session.marks) == [("orders", partition, 10) for partition in range(4)]
    waits = [record for record in caplog.records if "its outcome is unknown" in record.message]
    assert len(waits) == 4
    assert all("TimeoutError: no answer" in record.message for record in waits)


async def test_neighbours_of_a_poisoned_partition_land(tmp_path: Path, autojump_clock: MockClock) -> None:
    table, session, dead = FakeTable(tmp_path, landings_per_job=4), FakeSession(), FakeDeadLetters()
    await land_four_partitions_one_poisoned(table, session, dead)
    assert table.jobs[0] == 4
    assert sorted(session.marks) == [("orders", partition, 10) for partition in range(4)]


@pytest.mark.parametrize(
    ("differs", "error"),
    [({"group": "other"}, ForeignChainError), ({"topic_id": "f" * 32}, ForeignChainError), ({}, MovedCommitError)],
    ids=["group", "topic", "begin"],
)
async def test_fault_53_first_link_of_another_origin_marks_nothing(
    table: FakeTable, differs: dict[str, str], error: type[Exception]
) -> None:
    """Another group has started the chain meanwhile, or a zombie of the same group, which is ahead of its reset."""

    def start_chain_first(landings: Sequence[Landing]) -> None:
        (landing,) = landings
        origin = attrs.evolve(landing.link.origin, begin=5, **differs)
        table.append(attrs.evolve(landing.link, attempt="b" * 32, origin=origin, from_offset=5, to_offset=20), [])

    table.before = start_chain_first
    session = FakeSession()
    with pytest.raises(error):
        await consume(sink_to(table), session, claim_of([batch(0, 10)]))
    assert session.marks == []
    assert len(table.chains[KEY]) == 1


async def test_zombie_that_lost_the_first_link_stops_quietly(table: FakeTable) -> None:
    session = FakeSession()

    def start_chain_first(landings: Sequence[Landing]) -> None:
        session.is_lost = True
        (landing,) = landings
        origin = attrs.evolve(landing.link.origin, begin=5)
        table.append(attrs.evolve(landing.link, attempt="b" * 32, origin=origin, from_offset=5, to_offset=20), [])

    table.before = start_chain_first
    await consume(sink_to(table), session, claim_of([batch(0, 10)]))
    assert session.marks == []


async def test_fault_61_grown_table_is_warned_of_once(table: FakeTable, caplog: pytest.LogCaptureFixture) -> None:
    session = FakeSession()
    table.growth = "it has 2,000 snapshots: expire them"
    await consume(sink_to(table), session, claim_of([batch(0, 25)]))
    assert [event for event in session.events if isinstance(event, TableGrown)] == [
        TableGrown(table=table.name, what="it has 2,000 snapshots: expire them")
    ]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [f"{table.name}: it has 2,000 snapshots: expire them"]


async def test_requests_to_the_store_are_reported(table: FakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    session, usage = FakeSession(), Usage()
    monkeypatch.setattr(table, "take_requests", lambda: usage.take(table.name))
    table.before = lambda landings: usage.add("put", 2, sent=900)
    await consume(sink_to(table), session, claim_of([batch(0, 10)]))
    await consume(sink_to(table), session, claim_of([batch(10, 10)], initial_offset=10))
    assert [event for event in session.events if isinstance(event, StoreUsed)] == [
        StoreUsed(table=table.name, requests={"put": 2}, sent_bytes=900, received_bytes=0)
    ]


class Filtering(Shaping):
    """A user's shape, which drops records without a transform."""

    @property
    def is_plain(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("options", "is_transformed"),
    [
        ({}, False),
        ({"transform": lambda frame: frame}, True),
        ({"shape": Filtering()}, True),
    ],
    ids=["plain", "transform", "own shape"],
)
async def test_links_record_whether_rows_must_equal_records(
    table: FakeTable, options: dict[str, Any], is_transformed: bool
) -> None:
    await consume(sink_to(table, **options), FakeSession(), claim_of([batch(0, 10, next_offset=12)]))
    (link,) = table.chains[KEY]
    assert (link.records, link.is_transformed) == (10, is_transformed)
