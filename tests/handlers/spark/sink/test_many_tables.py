"""A sink with a table for each topic, in virtual time. Spark is faked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import Activity, CommittedOffset, Config, ConfigError, GroupAdmin, HandlerError, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.testing import memory_cluster
from sarameya_handlers import SparkSink
from sarameya_handlers.landing.errors import BrokenChainError, LostRecordsError
from sarameya_handlers.landing.links import ChainKey, CommitNote, Link, Origin
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.sink.spark_sink import ASSIGN_TIMEOUT
from tests.handlers.kit import FakeClaim, FakeSession, batch
from tests.handlers.spark.kit import FakeEngine, FakeTable, consume_in
from tests.handling.kit import member_of

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


def consume_ten(nursery: trio.Nursery, sink: SparkSink, session: FakeSession, claims: list[FakeClaim]) -> None:
    """Start the claims. Send ten records to each."""
    for claim in claims:
        nursery.start_soon(sink.consume_claim, session, claim)
        claim.send(batch(0, 10, topic=claim.topic))


async def test_each_topic_lands_in_its_own_table(lake: Lake, autojump_clock: MockClock) -> None:
    session, claims = FakeSession(), [FakeClaim(topic=topic) for topic in TOPICS]
    engine = FakeEngine(seconds=5.0, max_jobs=1)
    async with sink_to(lake, engine) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims)
        consume_ten(nursery, sink, session, claims)
        await trio.sleep(20)
        for claim in claims:
            claim.end()
    assert [lake.tables[topic].offsets for topic in TOPICS] == [[[*range(10)]]] * 2
    assert [key.topic for topic in TOPICS for key in lake.tables[topic].chains] == [*TOPICS]
    assert engine.most_running == 1, "the tables share the slots of the engine"


async def test_table_that_does_not_open_blocks_only_its_partitions(lake: Lake, autojump_clock: MockClock) -> None:
    session, (orders, payments) = FakeSession(), [FakeClaim(topic=topic) for topic in TOPICS]
    lake.tables["orders"].error = HandlerError("no permission")
    async with sink_to(lake) as sink, trio.open_nursery() as nursery:
        await start(sink, session, [orders, payments])
        consume_ten(nursery, sink, session, [orders, payments])
        await trio.sleep(600)
        assert "no permission" in reason(orders)
        assert session.marks == [("payments", 0, 10)]
        lake.tables["orders"].error = None
        await trio.sleep(60)
        orders.end()
        payments.end()
    assert session.ends == []
    assert session.marks == [("payments", 0, 10), ("orders", 0, 10)]


async def test_partition_continues_at_its_commit_once_the_table_opens(lake: Lake, autojump_clock: MockClock) -> None:
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
        assert await sink.start_offset(claim.topic_partition, None) is None, "the group's own start offset is used"
        nursery.start_soon(sink.consume_claim, session, claim)
        claim.send(batch(0, 10))
        await trio.sleep(60)
        table.error = None
        await trio.sleep(60)
        assert len(session.ends) == 1
        assert session.resets == session.marks == [("orders", 0, 10)], "the next start finds the end of the chain"
        claim.end()
        next_claim = FakeClaim()
        nursery.start_soon(consume_in, sink, session, next_claim)
        await trio.sleep(1)
        next_claim.end()
    assert next_claim.initial_offset == 10
    assert table.offsets == [[*range(10)]]


@pytest.mark.parametrize("has_chain", [False, True])
async def test_records_that_arrive_during_the_wait_land(lake: Lake, autojump_clock: MockClock, has_chain: bool) -> None:
    """The group starts at the newest record, and the chain may end before it."""
    table = lake.tables["orders"]
    async with memory_cluster({"orders": 1}) as cluster, trio.open_nursery() as nursery:
        cluster.produce_many("orders", 0, [(None, b"before")] * 5)
        if has_chain:
            ids = await topic_ids(cluster)
            before = link("orders", 3)
            origin = attrs.evolve(before.origin, group="billing", topic_id=ids[0], cluster_id=ids[1])
            table.append(attrs.evolve(before, origin=origin), [*range(3)])
        table.error = HandlerError("no permission")
        async with sink_to(lake) as sink, member_of(cluster, offset_initial="newest") as group:
            nursery.start_soon(group.consume, ["orders"], sink)
            await trio.sleep(5)
            cluster.produce_many("orders", 0, [(None, b"during")] * 7)
            await trio.sleep(60)
            table.error = None
            await trio.sleep(100)
            await group.close()
        assert cluster.committed("billing")[TopicPartition("orders", 0)].offset == 12
    expected = [[0, 1, 2], [*range(3, 12)]] if has_chain else [[*range(5, 12)]]
    assert table.offsets == expected


async def topic_ids(cluster: EmbeddedCluster) -> tuple[str, str]:
    """Return the id of the topic `orders`, and that of the cluster."""
    async with GroupAdmin(cluster.bootstrap_servers, Config(), lambda event: None, cluster.transport) as admin:
        metadata = await admin.metadata(["orders"])
    topic_id = metadata.topics["orders"].topic_id
    return "" if topic_id is None else topic_id.hex, metadata.cluster_id or ""


@pytest.mark.parametrize(
    "error", [LandingError("columns are missing"), OSError("disk full"), HandlerError("no permission")]
)
async def test_failed_landing_is_retried_until_its_cause_is_fixed(
    lake: Lake, autojump_clock: MockClock, error: Exception
) -> None:
    session, claims = FakeSession(), [FakeClaim(topic=topic) for topic in TOPICS]
    orders, payments = claims
    async with sink_to(lake, retry_for=10.0) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims)
        lake.tables["orders"].error = error
        consume_ten(nursery, sink, session, claims)
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
    """While the table is older than the commit, its partition waits."""
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


async def test_lost_records_end_the_session(lake: Lake, autojump_clock: MockClock) -> None:
    """The log has changed, not the table. The next start checks whether the records are really lost."""
    session, claim = FakeSession(), FakeClaim()
    async with sink_to(lake) as sink:
        await start(sink, session, [claim])
        claim.send(batch(0, 10), batch(30, 5))
        with pytest.raises(LostRecordsError):
            await sink.consume_claim(session, claim)
    assert session.ends == []
    assert claim.held == 0


async def test_chain_of_another_group_blocks_its_partition(lake: Lake, autojump_clock: MockClock) -> None:
    """The session does not end, since the next start would find the same chain."""
    session, claim, table = FakeSession(), FakeClaim(), lake.tables["orders"]
    table.unreadable = [BrokenChainError("link 2 is missing")] * 3
    async with sink_to(lake) as sink, trio.open_nursery() as nursery:
        await start(sink, session, [claim])
        nursery.start_soon(sink.consume_claim, session, claim)
        table.before = lambda landings: table.append(other_owner(), [*range(50)])
        claim.send(batch(0, 10))
        await trio.sleep(20)
        assert session.ends == []
        assert "link" in reason(claim)
        await trio.sleep(300)
        assert session.ends == []
        assert "belongs to group 'others'" in reason(claim)
        claim.end()


def other_owner() -> Link:
    """Return a first link by another group."""
    foreign = link("orders", 50)
    return attrs.evolve(foreign, origin=attrs.evolve(foreign.origin, group="others"))


async def test_topic_without_a_table_waits(lake: Lake, autojump_clock: MockClock) -> None:
    session, claims = FakeSession(), [FakeClaim(topic="returns"), FakeClaim(topic="orders")]
    async with sink_to(lake) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims)
        consume_ten(nursery, sink, session, claims)
        await trio.sleep(10)
        assert "no table for returns" in reason(claims[0])
        assert session.marks == [("orders", 0, 10)]
        for claim in claims:
            claim.end()


class SilentEngine(FakeEngine):
    """An engine that hangs while one of these tables is opened."""

    def __init__(self, *silent: str, max_jobs: int = 2) -> None:
        super().__init__(max_jobs=max_jobs)
        self.silent = silent
        self.opened: list[str] = []

    async def run(self, work: Callable[[Any, Any], Any], *, tag: str) -> Any:
        if tag.startswith("open-"):
            self.opened.append(tag.removeprefix("open-fake:"))
            if self.opened[-1] in self.silent:
                await trio.sleep_forever()
        return await super().run(work, tag=tag)


async def test_silent_store_delays_other_tables_only_at_first_start(lake: Lake, autojump_clock: MockClock) -> None:
    session, claims = FakeSession(), [FakeClaim(topic=topic) for topic in TOPICS]
    engine = SilentEngine("orders", max_jobs=3)
    async with sink_to(lake, engine) as sink, trio.open_nursery() as nursery:
        began = trio.current_time()
        await start(sink, session, claims)
        assert trio.current_time() - began == pytest.approx(ASSIGN_TIMEOUT)
        consume_ten(nursery, sink, session, claims)
        await trio.sleep(1000)
        assert "the table of orders is not open yet" in reason(claims[0])
        assert session.marks == [("payments", 0, 10)]
        assert sorted(engine.opened) == ["orders", "payments"], "no second thread of Spark hangs"
        claims[0].end()
        ended, began = trio.current_time(), trio.current_time()
        await sink.partitions_assigned(session, [claims[0].topic_partition])
        assert trio.current_time() == began, "the next assignment does not wait for it"
        claims[1].end()
    assert trio.current_time() - ended < 1, "the end of a claim ends its wait"


async def test_table_lands_while_another_one_hangs_in_open(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The silent table holds the slot that opens tables. Flushes use another slot."""
    session, claims = FakeSession(), [FakeClaim(topic=topic) for topic in ("a", "b")]
    tables = {topic: NamedTable(tmp_path, topic) for topic in ("a", "b")}
    async with sink_to(tables.__getitem__, SilentEngine("b")) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims[:1])
        await start(sink, session, claims[1:])
        consume_ten(nursery, sink, session, claims)
        await trio.sleep(10)
        assert session.marks == [("a", 0, 10)]
        for claim in claims:
            claim.end()


async def test_failed_tables_leave_a_slot_to_the_others(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Two tables whose store does not respond, two slots: the third table lands nevertheless."""

    class HangingEngine(FakeEngine):
        async def run(self, work: Callable[[Any, Any], Any], *, tag: str) -> Any:
            pending = getattr(work, "keywords", {}).get("pending", [])
            if pending and pending[0].link.key.topic in hanging:
                await trio.sleep(60)
                raise OSError("timed out")
            return await super().run(work, tag=tag)

    hanging = {"a", "b"}
    session, claims = FakeSession(), [FakeClaim(topic=topic) for topic in "abc"]
    tables = {topic: NamedTable(tmp_path, topic) for topic in "abc"}
    async with sink_to(tables.__getitem__, HangingEngine(), max_rows=1) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims)
        for claim in claims:
            nursery.start_soon(sink.consume_claim, session, claim)
            claim.send(batch(0, 1, topic=claim.topic))
        await trio.sleep(200)
        for number in range(1, 6):
            claims[2].send(batch(number, 1, topic="c"))
            await trio.sleep(1)
            assert session.marks[-1] == ("c", 0, number + 1)
        hanging.clear()
        await trio.sleep(200)
        assert {("a", 0, 1), ("b", 0, 1)} <= {*session.marks}
        for claim in claims:
            claim.end()


@pytest.mark.parametrize(
    ("table_of", "problem"),
    [
        ({}.__getitem__, "the table of orders is unknown: KeyError"),
        (str, "the table of orders is 'orders', which is no table"),
    ],
)
async def test_function_that_returns_no_table_blocks_its_topic(
    table_of: Callable[[str], Any], problem: str, autojump_clock: MockClock
) -> None:
    session, claim = FakeSession(), FakeClaim()
    async with sink_to(table_of) as sink, trio.open_nursery() as nursery:
        await start(sink, session, [claim])
        nursery.start_soon(sink.consume_claim, session, claim)
        await trio.sleep(10)
        assert problem in reason(claim)
        claim.end()


async def test_two_tables_of_one_name_are_refused(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Records of one topic would land in the table of the other."""
    session, claims = FakeSession(), [FakeClaim(topic=topic) for topic in "ab"]
    async with sink_to(lambda topic: FakeTable(tmp_path)) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims)
        for claim in claims:
            nursery.start_soon(sink.consume_claim, session, claim)
        await trio.sleep(1)
        problems = [claim.report.doing_now.reason for claim in claims if claim.report.doing_now]
        assert len(problems) == 1
        assert "return one object for each table" in problems[0]
        for claim in claims:
            claim.end()


def test_table_must_be_a_table_or_a_function() -> None:
    with pytest.raises(ConfigError, match="table = 42: must be a table, a path, or a function"):
        SparkSink(42)  # type: ignore[arg-type]


async def test_topics_of_one_table_start_together(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The first topic opens the table. The second topic does not take this for a hang."""
    table = NamedTable(tmp_path, "all")
    session, claims = FakeSession(), [FakeClaim(topic=topic) for topic in TOPICS]
    async with sink_to(lambda topic: table) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims)
        consume_ten(nursery, sink, session, claims)
        await trio.sleep(0.3)
        assert sorted(session.marks) == [("orders", 0, 10), ("payments", 0, 10)]
        for claim in claims:
            claim.end()


async def test_heads_of_revoked_partitions_are_stored_in_their_table(lake: Lake, autojump_clock: MockClock) -> None:
    session, claims = FakeSession(), [FakeClaim(topic=topic) for topic in TOPICS]
    async with sink_to(lake) as sink, trio.open_nursery() as nursery:
        await start(sink, session, claims)
        consume_ten(nursery, sink, session, claims)
        await trio.sleep(1)
        for claim in claims:
            claim.end()
        await trio.sleep(1)
        await sink.partitions_revoked(session, [TopicPartition(topic, 0) for topic in TOPICS])
    assert [[head.key.topic for head in lake.tables[topic].resting] for topic in TOPICS] == [["orders"], ["payments"]]
