"""The facts of an audit, read in an order in which members that continue to land cause no contradiction."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import attrs
import pytest

from sarameya import CommittedOffset, ConfigError, HandlerError
from sarameya.embedded import EmbeddedCluster
from sarameya.service import Cluster
from sarameya_handlers.audit import is_proved, verify_table
from sarameya_handlers.audit.facts import Facts
from sarameya_handlers.audit.verify.fact_collection import Audit, gather
from sarameya_handlers.audit.verify.findings import Code
from sarameya_handlers.audit.verify.verdict import judge
from sarameya_handlers.landing.links import ChainKey, CommitNote
from tests.handlers.audit.fake_table import FakeTable, links_of, rows_of
from tests.handlers.audit.kit import NOW

KEY = ChainKey("warehouse", "orders", 0)
OTHER = ChainKey("warehouse", "orders", 1)


@pytest.fixture
def table() -> FakeTable:
    links = [*links_of(KEY, 4, 9), *links_of(OTHER, 3)]
    return FakeTable(chains={KEY: links[:2], OTHER: links[2:]}, rows=list(rows_of(links)))


async def facts_of(table: FakeTable, place: Cluster | None = None, **options: object) -> Facts:
    audit = Audit(table=table, place=place, **options)  # type: ignore[arg-type]
    return await gather(audit, NOW)


def against_proof(facts: Facts) -> set[tuple[Code, str]]:
    return {(finding.code, finding.where) for finding in judge(facts) if finding.prevents_proof}


class RecordedProgress:
    """Progress of an audit that records its steps."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int | None]] = []
        self.done: list[int] = []

    def __call__(self, title: str, total: int | None = None) -> None:
        self.steps.append((title, total))

    def update(self, done: int) -> None:
        self.done.append(done)


async def test_sound_table_is_proved_with_progress(table: FakeTable) -> None:
    progress = RecordedProgress()
    facts = await facts_of(table, progress=progress)
    assert against_proof(facts) == set()
    assert facts.counts is not None
    assert facts.counts.rows == 12
    assert progress.steps == [
        ("fake:orders: looking for its chains", None),
        ("reading the links of 2 chains", None),
        ("counting rows, by 3 links", 12),
    ]
    assert progress.done == sorted(progress.done)
    assert progress.done[-1] == 12


async def test_rows_are_not_counted_with_links_only(table: FakeTable) -> None:
    table.read_error = AssertionError("not to be read")
    facts = await facts_of(table, counts_rows=False)
    assert (facts.counts, facts.uncounted) == (None, "--links-only")
    assert against_proof(facts) == set()


async def test_rows_without_lineage_are_not_counted(table: FakeTable) -> None:
    table.columns = ("topic", "offset")
    facts = await facts_of(table)
    assert facts.uncounted == "rows do not identify their records: there is no column 'partition'"


async def test_unreadable_table_is_a_finding(table: FakeTable) -> None:
    table.read_error = FileNotFoundError(2, "No such file", "part-7.parquet")
    assert against_proof(await facts_of(table)) == {(Code.ROWS_UNREADABLE, "")}


async def test_dead_spark_raises_instead_of_a_finding(table: FakeTable) -> None:
    def die(method: str) -> None:
        if method in ("batches", "leftovers"):
            raise ConnectionError("Spark's JVM has died")

    table.before_call = die
    with pytest.raises(ConnectionError, match="has died"):
        await facts_of(table)


async def test_table_without_rows_may_be_unreadable(table: FakeTable) -> None:
    table.chains = {KEY: [attrs.evolve(link, rows=0, records=0) for link in table.chains[KEY]]}
    table.read_error = HandlerError("nothing has landed")
    assert against_proof(await facts_of(table)) == set()
    table.chains = {KEY: links_of(KEY, 3)}
    with pytest.raises(HandlerError, match="nothing has landed"):
        await facts_of(table)


async def test_chain_with_an_unreadable_head_is_reported_alone(table: FakeTable) -> None:
    table.unprovable[OTHER] = "its history was cleaned up"
    table.rows.append(("orders", 0, 3))
    assert against_proof(await facts_of(table)) == {
        (Code.LINKS_UNREADABLE, str(OTHER)),
        (Code.ROWS_EXTRA, str(KEY)),
        (Code.OFFSETS_REPEATED, str(KEY)),
    }


async def test_leftovers_that_cannot_be_listed_do_not_prevent_proof(table: FakeTable) -> None:
    def refuse(method: str) -> None:
        if method == "leftovers":
            raise HandlerError("it is in the cloud")

    table.before_call = refuse
    facts = await facts_of(table)
    assert against_proof(facts) == set()
    assert [finding.text for finding in judge(facts)] == ["leftovers cannot be listed: it is in the cloud"]


@pytest.mark.parametrize("when", ["heads", "links", "batches"])
async def test_links_landed_during_the_audit_do_not_prevent_proof(table: FakeTable, when: str) -> None:
    """A member appends a link to a chain and starts a new chain, right before the audit's next step."""
    new = ChainKey("warehouse", "orders", 2)

    def land(method: str) -> None:
        if method == when and new not in table.chains:
            links = [links_of(KEY, 4, 9, 13)[2], *links_of(new, 2)]
            table.chains[KEY].append(links[0])
            table.chains[new] = links[1:]
            table.rows += rows_of(links)

    table.before_call = land
    facts = await facts_of(table)
    assert against_proof(facts) == set()
    assert {chain.key for chain in facts.chains} == {KEY, OTHER, new}


async def test_table_restored_during_the_audit_is_a_finding(table: FakeTable) -> None:
    def restore(method: str) -> None:
        if method == "batches":
            table.chains[KEY] = links_of(KEY, 4)

    table.before_call = restore
    assert (Code.LINKS_UNREADABLE, str(KEY)) in against_proof(await facts_of(table))


# -- the cluster ---------------------------------------------------------------------------------


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster({"orders": 2}) as cluster:
        cluster.produce_many("orders", 0, [(None, b"x")] * 11)
        cluster.produce_many("orders", 1, [(None, b"x")] * 3)
        yield cluster


def place_of(cluster: EmbeddedCluster) -> Cluster:
    from sarameya import Config

    return Cluster(tuple(cluster.bootstrap_servers), Config(bootstrap_timeout=2.0, request_timeout=2.0))


async def test_commits_and_logs_are_gathered(table: FakeTable, cluster: EmbeddedCluster) -> None:
    from sarameya import GroupAdmin

    place = place_of(cluster)
    head = table.chains[KEY][-1]
    commit = CommittedOffset(9, CommitNote.of(head).to_metadata())
    async with GroupAdmin(place.bootstrap_servers, place.config, lambda event: None) as admin:
        await admin.commit("billing", {KEY.topic_partition: commit})
    facts = await facts_of(table, place)
    assert facts.cluster is not None
    assert facts.cluster.groups["billing"].committed == {KEY.topic_partition: commit}
    log = facts.cluster.logs[KEY.topic_partition]
    assert (log.start, log.end, log.problem) == (0, 11, "")
    assert len(log.topic_id) == 32
    assert against_proof(facts) == set()
    table.chains[KEY].pop()
    table.rows = [row for row in table.rows if row[1] == 1 or row[2] < 4]
    assert against_proof(await facts_of(table, place)) == {(Code.TABLE_REWOUND, str(KEY))}


async def test_deleted_topic_is_a_finding_for_its_chains_only(table: FakeTable, cluster: EmbeddedCluster) -> None:
    deleted = ChainKey("warehouse", "old", 0)
    table.chains[deleted] = links_of(deleted, 2)
    table.rows += rows_of(table.chains[deleted])
    facts = await facts_of(table, place_of(cluster))
    assert against_proof(facts) == {(Code.CLUSTER_SILENT, str(deleted))}
    [finding] = [finding for finding in judge(facts) if finding.prevents_proof]
    assert "UNKNOWN_TOPIC_OR_PARTITION" in finding.text


async def test_log_truncated_below_the_head_is_reported(table: FakeTable) -> None:
    async with EmbeddedCluster({"orders": 2}, brokers=2) as cluster:
        for partition in (0, 1):
            for _ in range(5):
                cluster.produce_many("orders", partition, [(None, b"x")])
            cluster.move_leader("orders", partition, 1 - partition)
            for _ in range(6):
                cluster.produce_many("orders", partition, [(None, b"x")])
        epoch = cluster.log("orders", 0).leader_epoch
        table.chains[KEY][-1] = attrs.evolve(table.chains[KEY][-1], leader_epoch=epoch)
        assert against_proof(await facts_of(table, place_of(cluster))) == set()
        cluster.truncate("orders", 0, 7)
        cluster.move_leader("orders", 0, 0)
        cluster.produce_many("orders", 0, [(None, b"y")] * 20)
        facts = await facts_of(table, place_of(cluster))
        assert against_proof(facts) == {(Code.RECORDS_LOST, str(KEY))}
        assert "the log was truncated at 7, below" in judge(facts)[0].text


async def test_table_is_audited_without_a_reachable_cluster(table: FakeTable) -> None:
    from sarameya import Config

    started = time.monotonic()
    place = Cluster(("127.0.0.1:1",), Config(bootstrap_timeout=0.3, connect_timeout=0.3))
    facts = await facts_of(table, place)
    assert {code for code, _ in against_proof(facts)} == {Code.CLUSTER_SILENT}
    assert time.monotonic() - started < 10
    with pytest.raises(ConfigError):
        await facts_of(table, attrs.evolve(place, bootstrap_servers=("nonsense",)))


def test_verify_table_returns_the_findings(table: FakeTable) -> None:
    assert verify_table(None, table) == []  # type: ignore[arg-type]
    table.rows.append(("orders", 1, 3))
    [finding] = verify_table(None, table)  # type: ignore[arg-type]
    assert (finding.code, finding.where) == (Code.ROWS_OUTSIDE, str(OTHER))
    assert not is_proved([finding])
