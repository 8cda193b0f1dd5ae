"""The audit of Delta and Iceberg tables with a real Spark: verify, sweep, and rewind to an older version."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sarameya import CommittedOffset
from sarameya.arrow import kafka_schema
from sarameya_handlers.audit import is_proved, verify_table
from sarameya_handlers.audit.commands.rewind_command import read_chains
from sarameya_handlers.audit.commands.sweep_command import restate_heads
from sarameya_handlers.audit.facts import GroupFacts, LogSpan
from sarameya_handlers.audit.rewind_plan import plan_rewind
from sarameya_handlers.audit.verify.findings import Code, Severity
from sarameya_handlers.landing.chain_start import Log, choose_chain_start
from sarameya_handlers.landing.errors import ChainError
from sarameya_handlers.landing.links import ChainKey, CommitNote, Kind, Link
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.named import table_named
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing, Table
from tests.handlers.audit.fake_table import links_of
from tests.integration.connect_server import ConnectServer
from tests.integration.lake_stage import classic
from tests.integration.lakes import ICEBERG_CATALOG, lake_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves the sockets of `collect` to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SARAMEYA = str(Path(sysconfig.get_path("scripts"), "sarameya"))
DEADLINE = 480.0

KEY, OTHER = ChainKey("warehouse", "orders", 0), ChainKey("warehouse", "orders", 1)
LOG = Log(start=0, end=100)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with classic(tmp_path_factory.mktemp("lake")) as session:
        yield session


@attrs.frozen
class Lake:
    """A Delta or Iceberg table, with operations in the SQL of its format."""

    spark: SparkSession
    kind: str
    place: str

    @property
    def table(self) -> Table:
        """Return the table as a new process reads it."""
        return table_named(f"{self.kind}:{self.place}")

    @property
    def sql(self) -> str:
        return f"delta.`{self.place}`" if self.kind == "delta" else self.place

    @property
    def version(self) -> str:
        """Newest version of the table."""
        if self.kind == "delta":
            return str(self.spark.sql(f"DESCRIBE HISTORY {self.sql} LIMIT 1").collect()[0]["version"])
        query = f"SELECT snapshot_id FROM {self.sql}.history ORDER BY made_current_at DESC LIMIT 1"
        return str(self.spark.sql(query).collect()[0][0])

    def restore(self, version: str) -> None:
        if self.kind == "delta":
            self.spark.sql(f"RESTORE TABLE {self.sql} TO VERSION AS OF {version}")
        else:
            name = self.place.removeprefix(f"{ICEBERG_CATALOG}.")
            self.spark.sql(f"CALL {ICEBERG_CATALOG}.system.rollback_to_snapshot('{name}', {version})").collect()

    def land(self, *links: Link) -> None:
        table = self.table
        table.open(self.spark)
        for link in links:
            table.heads(self.spark, [link.key])
            table.land(self.spark, [landing_of(table, link)], Shaping(), lambda phase, landings: None)

    def verify(self) -> tuple[bool, set[tuple[Code, str]]]:
        """Return whether the table is proved, and the findings that contradict this."""
        findings = verify_table(self.spark, self.table)
        return is_proved(findings), {(f.code, f.where) for f in findings if f.severity is not Severity.NOTE}


def landing_of(table: Table, link: Link) -> Landing:
    offsets = range(link.from_offset, link.to_offset)
    columns = {
        "key": [None] * len(offsets),
        "value": [link.attempt.encode()] * len(offsets),
        "topic": [link.key.topic] * len(offsets),
        "partition": [link.key.partition] * len(offsets),
        "offset": list(offsets),
        "timestamp": [datetime(2026, 11, 22, tzinfo=UTC)] * len(offsets),
        "timestampType": [0] * len(offsets),
        "headers": [None] * len(offsets),
    }
    staged = table.staging.directory / f"{link.attempt}.parquet"
    pq.write_table(pa.table(columns, schema=kafka_schema()), staged)
    return Landing(link=link, staged=StagedFile(staged), records=len(offsets))


def links(key: ChainKey, *ends: int, start: int = 0) -> list[Link]:
    """Return links with unique attempts, whose rows are unknown until they are written."""
    return [attrs.evolve(link, attempt=uuid4().hex, rows=-1) for link in links_of(key, *ends, start=start)]


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Lake:
    if request.param == "delta":
        return Lake(spark, "delta", str(tmp_path / "orders"))
    return Lake(spark, "iceberg", f"{ICEBERG_CATALOG}.audit.t{uuid4().hex[:8]}")


def test_compacted_table_is_still_verified(lake: Lake) -> None:
    lake.land(*links(KEY, 4, 9, 20), *links(OTHER, 3))
    assert lake.verify() == (True, set())
    if lake.kind == "delta":
        lake.spark.sql(f"OPTIMIZE {lake.sql}")
    else:
        name = lake.place.removeprefix(f"{ICEBERG_CATALOG}.")
        options = "options => map('rewrite-all', 'true')"
        lake.spark.sql(f"CALL {ICEBERG_CATALOG}.system.rewrite_data_files(table => '{name}', {options})").collect()
    assert lake.verify() == (True, set())


def test_changed_rows_are_found_in_their_link(lake: Lake) -> None:
    lake.land(*links(KEY, 4, 9, 20), *links(OTHER, 3))
    lake.spark.sql(f"DELETE FROM {lake.sql} WHERE partition = 0 AND offset = 5")
    proved, found = lake.verify()
    assert (proved, found) == (False, {(Code.ROWS_MISSING, str(KEY))})
    [finding] = [f for f in verify_table(lake.spark, lake.table) if f.severity is not Severity.NOTE]
    assert "link 2, offsets [4, 9): 1 of its 5 rows was deleted later, or lost" in finding.text

    lake.spark.sql(f"INSERT INTO {lake.sql} SELECT * FROM {lake.sql} WHERE partition = 1 AND offset = 2")
    twice = {(Code.ROWS_EXTRA, str(OTHER)), (Code.OFFSETS_REPEATED, str(OTHER))}
    assert lake.verify()[1] == {(Code.ROWS_MISSING, str(KEY)), *twice}

    columns = ", ".join(
        f"cast(99 as {f.dataType.simpleString()}) as offset" if f.name == "offset" else f.name
        for f in (lake.spark.table(lake.sql).schema.fields)
    )
    query = f"SELECT {columns} FROM {lake.sql} WHERE partition = 0 AND offset = 0"
    lake.spark.sql(f"INSERT INTO {lake.sql} {query}")
    assert lake.verify()[1] == {(Code.ROWS_MISSING, str(KEY)), (Code.ROWS_OUTSIDE, str(KEY)), *twice}


@pytest.mark.parametrize("order", ["restored first", pytest.param("rewound first", marks=pytest.mark.exhaustive)])
def test_restored_table_lands_after_a_rewind(lake: Lake, order: str) -> None:
    """Chain 0 has two links more than the restored version. Chain 1 started after that version."""
    chain, other = links(KEY, 4, 9, 20, 30), links(OTHER, 3, start=1)
    lake.land(*chain[:2])
    version = lake.version
    lake.land(*chain[2:], *other)
    committed = {
        key.topic_partition: CommittedOffset(head.to_offset, CommitNote.of(head).to_metadata())
        for key, head in ((KEY, chain[-1]), (OTHER, other[-1]))
    }
    logs = {key.topic_partition: LogSpan(start=LOG.start, end=LOG.end) for key in (KEY, OTHER)}
    if order == "restored first":
        lake.restore(version)
        [head] = lake.table.heads(lake.spark, [KEY]).values()
        with pytest.raises(ChainError, match="restored"):
            choose_chain_start(KEY, head.origin, head, committed[KEY.topic_partition], LOG)

    chains = read_chains(lake.spark, lake.table, version)
    moves = {move.key: move for move in plan_rewind(chains, {"billing": GroupFacts(committed=committed)}, logs)}
    assert [move.problem for move in moves.values()] == ["", ""]
    assert moves[KEY].after == CommittedOffset(9, CommitNote.of(chain[1]).to_metadata())
    # After the restore, the table has no trace of chain 1: its group goes back to the log's start.
    assert moves[OTHER].after == CommittedOffset(0 if order == "restored first" else 1)

    if order == "rewound first":
        lake.restore(version)
    heads = lake.table.heads(lake.spark, [KEY, OTHER])
    assert {key: head.attempt for key, head in heads.items()} == {KEY: chain[1].attempt}
    chain_start = choose_chain_start(KEY, heads[KEY].origin, heads[KEY], moves[KEY].after, LOG)
    assert chain_start.offset == 9
    again = [attrs.evolve(link, number=n) for n, link in zip((3, 4), links(KEY, 15, 30, start=9), strict=True)]
    lake.land(*again, *links(OTHER, 3, start=moves[OTHER].after.offset))
    assert lake.verify() == (True, set())
    assert lake.spark.table(lake.sql).count() == 30 + (3 - moves[OTHER].after.offset)


def test_idle_chains_are_restated_before_a_sweep(lake: Lake) -> None:
    chain = links(KEY, 4, 9)
    lake.land(chain[0], *links(OTHER, 3))
    zombie = lake.table
    zombie.open(lake.spark)
    zombie.heads(lake.spark, [KEY])
    late = landing_of(zombie, chain[1])

    table = lake.table
    heads = table.heads(lake.spark, table.keys(lake.spark))
    restate_heads(lake.spark, table, list(heads.values()), time.time())
    with suppress(Exception):
        zombie.land(lake.spark, [late], Shaping(), lambda phase, landings: None)
    found = lake.table.links(lake.spark, KEY, 1)
    assert [(link.number, link.kind, link.to_offset) for link in found] == [(1, Kind.RECORDS, 4), (2, Kind.RESTATED, 4)]
    assert lake.verify() == (True, set())


# -- the command ---------------------------------------------------------------------------------


def sarameya(*arguments: str) -> tuple[int, Any, str]:
    command = [SARAMEYA, *arguments, "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def test_table_behind_spark_connect_is_verified_and_swept(lake_server: ConnectServer, tmp_path: Path) -> None:
    place = str(tmp_path / "orders")
    with lake_server.session() as session:
        lake = Lake(session, "delta", place)  # type: ignore[arg-type]
        lake.land(*links(KEY, 4, 9))
    code, document, err = sarameya("verify", f"delta:{place}", "--spark", lake_server.url)
    assert (code, document["rows"]) == (0, 9), err
    assert [chain["rows_counted"] for chain in document["chains"]] == [9]

    orphan = Path(place, "part-00000-orphan.parquet")
    pq.write_table(pa.table({"offset": [1]}), orphan)
    os.utime(orphan, (time.time() - 3 * 86_400,) * 2)
    sweep = ("sweep", f"delta:{place}", "--spark", lake_server.url, "--older-than", "2d")
    code, document, err = sarameya(*sweep)
    assert (code, orphan.exists()) == (0, True), err
    assert [Path(left["name"]).name for left in document["leftovers"] if left["due"]] == [orphan.name]
    code, document, err = sarameya(*sweep, "--execute")
    assert (code, orphan.exists()) == (0, False), err


@pytest.mark.exhaustive
def test_delta_table_is_verified_by_a_separate_spark(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, "delta", str(tmp_path / "orders"))
    lake.land(*links(KEY, 4, 9))
    options = lake_options(tmp_path).conf
    conf = [word for name, value in options.items() for word in ("--conf", f"{name}={value}")]
    code, document, err = sarameya("verify", f"delta:{lake.place}", "--spark", "local[1]", *conf)
    assert (code, document["proved"]) == (0, True), err
    code, document, err = sarameya("verify", f"delta:{lake.place}", "--spark", "local[1]")
    assert (code, document) == (1, None)
    [line] = err.splitlines()
    assert line.endswith("check that Spark has the jars and catalogs of the table (--conf)")

    # This process has landed in the table with its own driver.
    sweep = ("sweep", f"delta:{lake.place}", "--older-than", "1d", "--execute", "--single-driver")
    code, document, err = sarameya(*sweep, "--spark", "local[1]", *conf)
    assert (code, document) == (1, None), "not exit code 2: the other driver may end by itself"
    assert "a member, or another command, has its own driver" in err
