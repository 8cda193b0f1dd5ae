"""A sink whose topics land in tables of their own, under virtual time, with Spark faked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Activity, CommittedOffset, HandlerError, TopicPartition
from sarameya_handlers import SparkSink
from sarameya_handlers.landing.links import ChainKey, CommitNote, Link, Origin
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.sink.spark_sink import ASSIGN_TIMEOUT, OPEN_TIMEOUT
from tests.handlers.kit import FakeClaim, FakeSession, batch
from tests.handlers.spark.kit import FakeEngine, FakeTable, consume_in

TOPICS = ("orders", "payments")


class Lake:
    """Fake tables by topic."""

    def __init__(self, directory: Path) -> None:
        self.tables = {topic: NamedTable(directory, topic) for topic in TOPICS}

    def __call__(self, topic: str) -> FakeTable:
        if topic not in self.tables:
            raise HandlerError(f"no table for {topic}")
        return self.tables[topic]


class NamedTable(FakeTable):
    def __init__(self, directory: Path, topic: str) -> None:
        super().__init__(directory)
        self.topic = topic

    @property
    def name(self) -> str:
        return f"fake:{self.topic}"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def sink_to(lake: Callable[[str], FakeTable], engine: FakeEngine | None = None, **options: Any) -> SparkSink:
    return SparkSink(lake, spark=engine or FakeEngine(), **{"max_rows": 10, "max_age": 30.0, **options})


def link(topic: str, to_offset: int) -> Link:
    """Return the first link of a chain, from offset 0."""
    session = FakeSession()
    origin = Origin(group=session.group, topic_id=session.topic_id(topic), cluster_id=session.cluster_id)
    return Link(
        key=ChainKey("sarameya", topic, 0),
        origin=origin,
        number=1,
        from_offset=0,
        to_offset=to_offset,
        attempt="a",
        rows=to_offset,
    )


def reason(claim: FakeClaim) -> str:
    doing = claim.report.doing_now
    assert doing is not None
    assert doing.activity is Activity.RETRYING
    return doing.reason


async def start(
    sink: SparkSink, session: FakeSession, claims: list[FakeClaim], committed: CommittedOffset | None = None
) -> None:
    """Assign the partitions of these claims, each with this commit."""
    await sink.partitions_assigned(session, [claim.topic_partition for claim in claims])
    for claim in claims:
        chosen = await sink.start_offset(claim.topic_partition, committed)
        claim.initial_offset = 0 if chosen is None else chosen.offset


async def test_each_topic_lands_in_its_own_table(lake: Lake, autojump_clock: MockClock) -> None:
    session, claims = FakeSession(), [FakeClaim(topic=topic) for topic in TOPICS]
    engine = FakeEngine(seconds=5.0, max_jobs=1)
    async with sink_to(lake, engine) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims)
        for claim in claims:
            nursery.start_soon(sink.consume_claim, session, claim)
            claim.send(batch(0, 10, topic=claim.topic))
        await trio.sleep(20)
        for claim in claims:
            claim.end()
    assert [lake.tables[topic].offsets for topic in TOPICS] == [[[*range(10)]]] * 2
    assert [key.topic for topic in TOPICS for key in lake.tables[topic].chains] == [*TOPICS]
    assert engine.most_running == 1, "the tables share the slots for flushes"


async def test_table_that_does_not_open_holds_back_its_partitions_only(lake: Lake, autojump_clock: MockClock) -> None:
    session, (orders, payments) = FakeSession(), [FakeClaim(topic=topic) for topic in TOPICS]
    lake.tables["orders"].error = HandlerError("no permission")
    async with sink_to(lake) as sink, trio.open_nursery() as nursery:
        await start(sink, session, [orders, payments])
        for claim in (orders, payments):
            nursery.start_soon(sink.consume_claim, session, claim)
            claim.send(batch(0, 10, topic=claim.topic))
        await trio.sleep(600)
        assert "no permission" in reason(orders)
        assert session.marks == [("payments", 0, 10)]
        lake.tables["orders"].error = None
        await trio.sleep(60)
        orders.end()
        payments.end()
    assert session.ends == ["orders-0 can land again, and starts at another offset"], "no offset was committed"
    assert lake.tables["orders"].offsets == []


async def test_partition_continues_in_place_at_its_commit(lake: Lake, autojump_clock: MockClock) -> None:
    session, claim, table = FakeSession(), FakeClaim(10), lake.tables["orders"]
    table.append(link("orders", 10), [*range(10)])
    note = CommitNote.of(link("orders", 10)).to_metadata()
    table.error = HandlerError("no permission")
    async with sink_to(lake) as sink, trio.open_nursery() as nursery:
        nursery.start_soon(consume_in, sink, session, claim, CommittedOffset(10, note))
        claim.send(batch(10, 10))
        await trio.sleep(60)
        table.error = None
        await trio.sleep(60)
        claim.end()
    assert session.ends == []
    assert claim.initial_offset == 10
    assert table.offsets == [[*range(10)], [*range(10, 20)]]


async def test_chain_beyond_the_commit_is_not_repeated_after_the_wait(lake: Lake, autojump_clock: MockClock) -> None:
    session, claim, table = FakeSession(), FakeClaim(), lake.tables["orders"]
    table.append(link("orders", 10), [*range(10)])
    table.error = HandlerError("no permission")
    async with sink_to(lake) as sink, trio.open_nursery() as nursery:
        await sink.partitions_assigned(session, [claim.topic_partition])
        chosen = await sink.start_offset(claim.topic_partition, None)
        assert chosen is not None
        assert (chosen.offset, bool(chosen.metadata)) == (0, True), "nothing is looked up and committed"
        nursery.start_soon(sink.consume_claim, session, claim)
        claim.send(batch(0, 10))
        await trio.sleep(60)
        table.error = None
        await trio.sleep(60)
        assert len(session.ends) == 1
        claim.end()
        again = FakeClaim()
        nursery.start_soon(consume_in, sink, session, again)
        await trio.sleep(1)
        again.end()
    assert again.initial_offset == 10
    assert table.offsets == [[*range(10)]]
    assert session.marks == [("orders", 0, 10)]


@pytest.mark.parametrize(
    "error", [LandingError("columns are missing"), OSError("disk full"), HandlerError("no permission")]
)
async def test_failed_landing_waits_for_its_remedy(lake: Lake, autojump_clock: MockClock, error: Exception) -> None:
    session, claims = FakeSession(), [FakeClaim(topic=topic) for topic in TOPICS]
    orders, payments = claims
    async with sink_to(lake, retry_for=10.0) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims)
        lake.tables["orders"].error = error
        for claim in claims:
            nursery.start_soon(sink.consume_claim, session, claim)
            claim.send(batch(0, 10, topic=claim.topic))
        await trio.sleep(3601)
        assert str(error) in reason(orders)
        payments.send(batch(10, 10, topic="payments"))
        await trio.sleep(10)
        assert session.marks == [("payments", 0, 10), ("payments", 0, 20)]
        lake.tables["orders"].error = None
        await trio.sleep(60)
        assert session.marks[2:] == [("orders", 0, 10)]
        orders.end()
        payments.end()
    assert lake.tables["orders"].offsets == [[*range(10)]]


async def test_restored_table_is_read_again(lake: Lake, autojump_clock: MockClock) -> None:
    """While the table is older than the commit, its partition waits. It starts anew once the table is back."""
    session, claim, table = FakeSession(), FakeClaim(10), lake.tables["orders"]
    committed = CommittedOffset(10, CommitNote.of(link("orders", 10)).to_metadata())
    async with sink_to(lake) as sink, trio.open_nursery() as nursery:
        nursery.start_soon(consume_in, sink, session, claim, committed)
        await trio.sleep(60)
        assert "Was the table dropped or restored?" in reason(claim)
        table.append(link("orders", 10), [*range(10)])
        await trio.sleep(60)
        claim.send(batch(10, 10))
        await trio.sleep(1)
        claim.end()
    assert session.ends == []
    assert table.offsets == [[*range(10)], [*range(10, 20)]]


async def test_lost_records_hold_back_one_partition(lake: Lake, autojump_clock: MockClock) -> None:
    session, claims = FakeSession(), [FakeClaim(), FakeClaim(partition=1)]
    async with sink_to(lake) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims)
        for claim in claims:
            nursery.start_soon(sink.consume_claim, session, claim)
            claim.send(batch(0, 10, partition=claim.partition))
        await trio.sleep(1)
        claims[0].send(batch(30, 5))
        claims[1].send(batch(10, 10, partition=1))
        await trio.sleep(40)
        assert session.marks[-1] == ("orders", 1, 20)
        assert claims[0].held == 0, "records that cannot land take no room from others"
        assert len(session.ends) == 1, "the start offset says whether the records are really gone"
        for claim in claims:
            claim.end()


async def test_topic_without_a_table_waits(lake: Lake, autojump_clock: MockClock) -> None:
    session, claims = FakeSession(), [FakeClaim(topic="returns"), FakeClaim(topic="orders")]
    async with sink_to(lake) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims)
        for claim in claims:
            nursery.start_soon(sink.consume_claim, session, claim)
            claim.send(batch(0, 10, topic=claim.topic))
        await trio.sleep(10)
        assert "no table for returns" in reason(claims[0])
        assert session.marks == [("orders", 0, 10)]
        for claim in claims:
            claim.end()


class SilentEngine(FakeEngine):
    """Does not respond while the table of `orders` is opened."""

    async def run(self, work: Callable[[Any, Any], Any], *, tag: str) -> Any:
        if tag == "open-fake:orders":
            await trio.sleep_forever()
        return await super().run(work, tag=tag)


async def test_silent_store_delays_the_start_of_others_for_a_while(lake: Lake, autojump_clock: MockClock) -> None:
    session, claims = FakeSession(), [FakeClaim(topic=topic) for topic in TOPICS]
    async with sink_to(lake, SilentEngine()) as sink, trio.open_nursery() as nursery:
        began = trio.current_time()
        await start(sink, session, claims)
        assert trio.current_time() - began == pytest.approx(OPEN_TIMEOUT)
        for claim in claims:
            nursery.start_soon(sink.consume_claim, session, claim)
            claim.send(batch(0, 10, topic=claim.topic))
        await trio.sleep(10)
        assert "has not responded for 30 s" in reason(claims[0])
        assert session.marks == [("payments", 0, 10)]
        for claim in claims:
            claim.end()


async def test_many_silent_tables_do_not_delay_the_start_for_long(tmp_path: Path, autojump_clock: MockClock) -> None:
    class Silent(FakeEngine):
        async def run(self, work: Callable[[Any, Any], Any], *, tag: str) -> Any:
            if tag.startswith("open-") and tag != "open-fake:t0":
                await trio.sleep_forever()
            return await super().run(work, tag=tag)

    session, claims = FakeSession(), [FakeClaim(topic=f"t{n}") for n in range(20)]
    sink = sink_to(lambda topic: NamedTable(tmp_path, topic), Silent(max_jobs=2))
    async with sink, trio.open_nursery() as nursery:
        began = trio.current_time()
        await start(sink, session, claims, CommittedOffset(0))
        assert trio.current_time() - began == pytest.approx(ASSIGN_TIMEOUT)
        for claim in claims:
            nursery.start_soon(sink.consume_claim, session, claim)
            claim.send(batch(0, 10, topic=claim.topic))
        await trio.sleep(1000)
        assert session.marks == [("t0", 0, 10)], "it is opened at last"
        assert all("has not responded" in reason(claim) for claim in claims[1:])
        for claim in claims:
            claim.end()


async def test_heads_of_each_table_rest_in_it(lake: Lake, autojump_clock: MockClock) -> None:
    session, claims = FakeSession(), [FakeClaim(topic=topic) for topic in TOPICS]
    async with sink_to(lake) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims)
        for claim in claims:
            nursery.start_soon(sink.consume_claim, session, claim)
            claim.send(batch(0, 10, topic=claim.topic))
        await trio.sleep(1)
        for claim in claims:
            claim.end()
        await trio.sleep(1)
        await sink.partitions_revoked(session, [TopicPartition(topic, 0) for topic in TOPICS])
    assert [[head.key.topic for head in lake.tables[topic].resting] for topic in TOPICS] == [["orders"], ["payments"]]
