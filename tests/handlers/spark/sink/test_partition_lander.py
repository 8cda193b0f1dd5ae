"""Partitions next to others, after errors, and at their end, in virtual time. Spark is faked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Activity, Landed, LandingFailed, LandingStarted, MessageBatch, RegistryError, TopicPartition
from sarameya_handlers import SparkSink
from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.links import ChainKey, Kind, Link, Origin
from sarameya_handlers.spark.errors import SparkGoneError
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Shape
from tests.handlers.kit import FakeClaim, FakeSession, batch
from tests.handlers.spark.kit import FakeEngine, FakeTable, consume_in

IDLE, BUSY = ChainKey("sarameya", "orders", 0), ChainKey("sarameya", "orders", 1)


def sink_to(table: FakeTable, **options: Any) -> SparkSink:
    return SparkSink(table, spark=FakeEngine(), **{"max_rows": 10, "max_age": 30.0, **options})


@pytest.mark.parametrize("each", [5.0, 29.0, 31.0])
async def test_idle_head_is_restated_despite_a_busy_neighbour(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, each: float
) -> None:
    """Each shared job takes a batch of all partitions, so a busy neighbour might prevent the restatement."""
    monkeypatch.setattr(
        "sarameya_handlers.spark.sink.partition_lander.wall_clock", lambda: int(trio.current_time() * 1000)
    )
    table = FakeTable(tmp_path, landings_per_job=8)
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
    # The head is checked only once per max_age, so it is restated after 130 s at the latest.
    assert len(restated) >= int(30 * each / 130)


async def test_claim_with_a_full_buffer_ends_soon(tmp_path: Path, autojump_clock: MockClock) -> None:
    table = FakeTable(tmp_path)
    claim, session = FakeClaim(), FakeSession()
    async with sink_to(table) as sink, trio.open_nursery() as claims:
        table.error = OSError("disk full")
        claims.start_soon(consume_in, sink, session, claim)
        claim.send(*(batch(first, 10) for first in range(0, 30, 10)))
        await trio.sleep(100)
        assert not claim.is_read, "the buffer is full"
        while claim.waiting:
            claim.batches().receive_nowait()  # unread fetches are dropped, as a revocation does
        claim.end()
        ended = trio.current_time()
    assert trio.current_time() - ended < 3
    assert session.marks == []


async def test_membership_lost_during_a_gap_at_start_is_no_failure(tmp_path: Path, autojump_clock: MockClock) -> None:
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


async def test_lost_membership_stops_the_retries(tmp_path: Path, autojump_clock: MockClock) -> None:
    table = FakeTable(tmp_path)
    claim, session = FakeClaim(), FakeSession()
    async with sink_to(table) as sink, trio.open_nursery() as claims:
        table.error = OSError("disk full")
        claims.start_soon(consume_in, sink, session, claim)
        claim.send(batch(0, 10))
        await trio.sleep(0.2)
        attempts = len(table.landings)
        assert attempts == 1
        table.error = None
        session.is_lost = True
        claim.end()
    assert len(table.landings) == attempts
    assert table.chains == {}


async def test_flush_state_and_events_are_reported(tmp_path: Path, autojump_clock: MockClock) -> None:
    table = FakeTable(tmp_path)
    claim, session = FakeClaim(), FakeSession()
    async with sink_to(table) as sink, trio.open_nursery() as claims:
        table.error = OSError("disk full")
        claims.start_soon(consume_in, sink, session, claim)
        claim.send(batch(0, 10))
        await trio.sleep(0.3)
        doing = claim.report.doing_now
        assert doing is not None
        assert (doing.activity, doing.attempt, claim.report.landed) == (Activity.RETRYING, 2, -1)
        assert "disk full" in doing.reason
        fields = {"partition": TopicPartition("orders", 0), "from_offset": 0, "to_offset": 10}
        assert session.events == [LandingStarted(**fields), LandingFailed(**fields, cause="OSError: disk full")]
        table.error = None
        await trio.sleep(3)
        assert claim.report.doing_now is None
        assert claim.report.landed == 10
        assert session.events[2] == LandingStarted(**fields)
        (landed,) = session.events[3:]
        assert isinstance(landed, Landed)
        (link,) = table.chains[IDLE]
        assert (landed.from_offset, landed.to_offset) == (0, 10)
        assert (landed.rows, landed.size_bytes) == (link.rows, link.size_bytes)
        assert 0 <= landed.seconds < 1
        claim.end()


class SignallingTable(FakeTable):
    """A table that sets `read_back` just before the waiter of a flush continues."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.read_back = trio.Event()

    def links(self, spark: Any, key: ChainKey, since: int) -> Sequence[Link]:
        self.read_back.set()
        return super().links(spark, key, since)


async def test_collect_and_flush_errors_are_both_raised(tmp_path: Path, autojump_clock: MockClock) -> None:
    table = SignallingTable(tmp_path)

    class Failing(FakeClaim):
        async def batches(self) -> AsyncIterator[MessageBatch]:  # type: ignore[override]
            yield batch(0, 10)
            await table.read_back.wait()
            raise OSError("the log is broken")

    async with sink_to(table) as sink:
        table.error = KeyError("column")
        with pytest.raises(ExceptionGroup) as caught:
            await consume_in(sink, FakeSession(), Failing())
    assert sorted(str(error).split(": ")[0] for error in caught.value.exceptions) == [
        "link 1 of sarameya/orders-0 [0, 10) did not land",
        "the log is broken",
    ]


async def test_partition_lost_during_a_cancellation_is_no_failure(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The order of the tasks is random, so the test repeats."""

    async def cancel(table: SignallingTable, session: FakeSession, scope: trio.CancelScope) -> None:
        await table.read_back.wait()
        session.is_lost = True
        scope.cancel()

    for _ in range(20):
        table, claim, session = SignallingTable(tmp_path), FakeClaim(), FakeSession()
        async with sink_to(table) as sink, trio.open_nursery() as nursery:
            table.error = OSError("disk full")
            claim.send(batch(0, 10))
            with trio.CancelScope() as scope:
                nursery.start_soon(cancel, table, session, scope)
                await consume_in(sink, session, claim)
        assert session.marks == []
    assert "orders-0: records that have not landed are left to the next owner" in caplog.text


def first_link() -> Link:
    origin = Origin(group="flights", topic_id=FakeSession().topic_id("orders"))
    return Link(key=IDLE, number=1, from_offset=0, to_offset=10, attempt="a" * 32, origin=origin)


AT_FAULT = ChainKey("sarameya", "orders", 2)


class FailingTable(FakeTable):
    """A table that fails each job with a batch of partition 2, before anything of the job lands."""

    failure: Exception | None = None
    is_broken = False
    """True if the chain of partition 2 cannot be read."""

    def land(self, spark: Any, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        if self.failure is not None and any(landing.link.key == AT_FAULT for landing in landings):
            self.jobs.append(-len(landings))
            raise self.failure
        super().land(spark, landings, shape, checkpoint)

    def links(self, spark: Any, key: ChainKey, since: int) -> Sequence[Link]:
        if self.is_broken and key == AT_FAULT:
            raise BrokenChainError("a link is missing")
        return super().links(spark, key, since)


@pytest.mark.parametrize(
    "error",
    [
        RegistryError("GET /schemas/ids/7: 403 Forbidden"),
        MemoryError("cannot allocate 2 GB"),
        OSError(28, "No space left on device"),
        SparkGoneError("the JVM has died of it"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_fault_56_neighbours_of_a_failing_partition_land_alone(
    tmp_path: Path, autojump_clock: MockClock, error: Exception
) -> None:
    table, session = FailingTable(tmp_path, landings_per_job=8), FakeSession()
    table.failure = error
    claims = [FakeClaim(partition=number) for number in range(5)]
    async with sink_to(table) as sink, trio.open_nursery() as nursery:
        for claim in claims:
            nursery.start_soon(consume_in, sink, session, claim)
        for first in range(0, 50, 10):
            for claim in claims:
                claim.send(batch(first, 10, partition=claim.partition))
            await trio.sleep(40)
            landed = {claim.partition for claim in claims if ("orders", claim.partition, first + 10) in session.marks}
            assert landed == {0, 1, 3, 4}
        doing = {claim.partition: claim.report.doing_now for claim in claims}
        assert [number for number, at in doing.items() if at is not None] == [2]
        assert doing[2] is not None
        assert str(table.failure) in doing[2].reason
        assert min(table.jobs) < -1, "first all fail together"
        assert max(table.jobs) > 1, "then the partitions that are not at fault land together again"
        table.failure = None
        await trio.sleep(60)
        assert ("orders", 2, 50) in session.marks
        for claim in claims:
            claim.end()
    assert [len(chain) for chain in table.chains.values()].count(5) == 5


async def test_spark_outage_blames_no_partition(tmp_path: Path, autojump_clock: MockClock) -> None:
    """All partitions wait for Spark, and land together."""
    table, session = FailingTable(tmp_path, landings_per_job=8), FakeSession()
    table.failure = SparkGoneError("it does not answer", begun=False)
    claims = [FakeClaim(partition=number) for number in range(3)]
    async with sink_to(table) as sink, trio.open_nursery() as nursery:
        for claim in claims:
            nursery.start_soon(consume_in, sink, session, claim)
            claim.send(batch(0, 10, partition=claim.partition))
        await trio.sleep(0.3)
        table.failure = None
        await trio.sleep(5)
        for claim in claims:
            claim.end()
    assert table.jobs == [-3, 3]


async def test_fault_56_broken_chain_does_not_stop_its_neighbours(tmp_path: Path, autojump_clock: MockClock) -> None:
    table, session = FailingTable(tmp_path, landings_per_job=8), FakeSession()
    claims = [FakeClaim(partition=number) for number in (1, 2, 3)]
    ended = {}

    async def run(sink: SparkSink, claim: FakeClaim) -> None:
        try:
            await consume_in(sink, session, claim)
        except Exception as error:
            ended[claim.partition] = str(error)

    async with sink_to(table) as sink, trio.open_nursery() as nursery:
        for claim in claims:
            nursery.start_soon(run, sink, claim)
        await trio.sleep(1)
        table.is_broken = True
        for claim in claims:
            claim.send(batch(0, 10, partition=claim.partition))
        await trio.sleep(5)
        for claim in claims:
            claim.end()
    assert list(ended) == [2]
    assert "a link is missing" in ended[2]
    assert {mark for mark in session.marks if mark[2]} == {("orders", 1, 10), ("orders", 3, 10)}
