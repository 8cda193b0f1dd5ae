"""Upkeep of Delta tables by their owners: compaction, clean-up, RESTORE, lost history; and tables that are refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sarameya import HandlerError
from sarameya_handlers.landing.errors import BrokenChainError, ForgottenChainError, RewoundTableError
from sarameya_handlers.landing.links import Link
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.delta.history.commits import app_id
from sarameya_handlers.spark.delta.history.log import DeltaLog
from sarameya_handlers.spark.delta.spark_writer import SparkWriter
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.errors import LandingError
from tests.integration.delta_stage import attempt, land, link
from tests.integration.lake_stage import KEY, OTHER, classic, found, rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with classic(tmp_path_factory.mktemp("lake")) as session:
        yield session


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def table(spark: SparkSession, root: Path) -> DeltaTable:
    table = DeltaTable(root)
    table.open(spark)
    return table


@pytest.fixture
def name(root: Path) -> str:
    return f"delta.`{root}`"


def landed(spark: SparkSession, table: DeltaTable, count: int) -> list[Link]:
    """Land `count` links of five records each, one after the other."""
    chain = [link(number, 5 * (number - 1), 5 * number) for number in range(1, count + 1)]
    land(spark, table, *chain)
    return chain


def as_found(chain: list[Link]) -> list[tuple[int, str]]:
    return [(one.number, one.attempt) for one in chain]


def fresh_table(root: Path) -> DeltaTable:
    """Return the table as a new process reads it, by SQL."""
    return DeltaTable(root)


def test_compaction_changes_no_link_and_no_row(spark: SparkSession, table: DeltaTable, root: Path, name: str) -> None:
    chain = landed(spark, table, 4)
    staged = table.staging.directory / f"{'0' * 32}.parquet"
    staged.write_bytes(b"on its way")
    files = list(root.glob("part-*.parquet"))

    (done,) = spark.sql(f"OPTIMIZE {name}").collect()
    assert (done.metrics.numFilesRemoved, done.metrics.numFilesAdded) == (4, 1)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.sql(f"VACUUM {name} RETAIN 0 HOURS").collect()
    assert [file.exists() for file in files] == [False] * len(files)
    assert staged.exists(), "VACUUM skips names with a leading underscore"
    assert (root / "_sarameya" / "driver.lock").exists()
    assert [leftover.what for leftover in table.leftovers(spark)] == ["a staged file"]

    for one in (table, fresh_table(root)):
        assert found(spark, one) == as_found(chain)
        assert [one.rows for one in one.links(spark, KEY, 1)] == [5] * 4
        assert rows(one.read(spark)) == rows_of(*chain)
    chain.append(link(5, 20, 23))
    land(spark, table, chain[-1])
    assert found(spark, table) == as_found(chain)
    assert rows(table.read(spark)) == rows_of(*chain)


def test_restored_table_continues_from_its_head(spark: SparkSession, table: DeltaTable, root: Path, name: str) -> None:
    chain = landed(spark, table, 4)
    others = link(1, 0, 3, key=OTHER)
    land(spark, table, others)
    version_of_second = 2
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {version_of_second}").collect()

    for one in (table, fresh_table(root)):
        assert found(spark, one) == as_found(chain[:2])
        assert one.heads(spark, [KEY, OTHER])[KEY].attempt == chain[1].attempt
        assert one.keys(spark) == [KEY]
        assert rows(one.read(spark)) == rows_of(*chain[:2])
        assert one.heads_at(spark, "4")[KEY].attempt == chain[3].attempt

    # Delta's transactions already have the numbers 3 and 4. The new links land nevertheless.
    new_links = [link(3, 10, 12), link(4, 12, 13), link(1, 0, 4, key=OTHER)]
    land(spark, table, *new_links)
    for one in (table, fresh_table(root)):
        assert found(spark, one) == as_found([*chain[:2], *new_links[:2]])
        assert found(spark, one, OTHER) == as_found(new_links[2:])
        assert rows(one.read(spark)) == rows_of(*chain[:2], *new_links)


def test_link_number_is_won_once_after_a_restore(spark: SparkSession, table: DeltaTable, root: Path, name: str) -> None:
    chain = landed(spark, table, 3)
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF 1").collect()
    other = DeltaTable(root)
    other.open(spark)
    for one in (table, other):
        one.heads(spark, [KEY])
    loser, winner = link(2, 5, 9), link(2, 5, 7)
    attempt(spark, other, winner)
    attempt(spark, table, loser)
    assert found(spark, table) == as_found([chain[0], winner])
    assert rows(table.read(spark)) == rows_of(chain[0], winner)


def test_member_unaware_of_a_restore_breaks_the_chain(
    spark: SparkSession, table: DeltaTable, root: Path, name: str, tmp_path: Path
) -> None:
    chain = landed(spark, table, 3)
    table.heads(spark, [KEY])
    by_spark = DeltaTable(root, staging=tmp_path)
    by_spark.open(spark)
    by_spark.heads(spark, [KEY])
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF 1").collect()
    with pytest.raises(LandingError, match="the table has no link 3, only 1"):
        attempt(spark, table, link(4, 15, 18))  # a commit without Spark reads the table again
    attempt(spark, by_spark, link(4, 15, 18))  # a commit by Spark does not
    for one in (table, fresh_table(root)):
        with pytest.raises(BrokenChainError, match="restore the table once more"):
            one.links(spark, KEY, 3)
        with pytest.raises(BrokenChainError):
            one.heads(spark, [KEY])
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF 1").collect()
    land(spark, table, link(2, 5, 6))
    assert [number for number, _ in found(spark, table)] == [1, 2]
    assert rows(table.read(spark))[:5] == rows_of(chain[0])


def test_restore_to_a_time_is_refused_with_advice(spark: SparkSession, table: DeltaTable, name: str) -> None:
    landed(spark, table, 3)
    history = spark.sql(f"DESCRIBE HISTORY {name}").collect()
    spark.sql(f"RESTORE TABLE {name} TO TIMESTAMP AS OF '{history[1].timestamp}'").collect()
    with pytest.raises(RewoundTableError, match="TO VERSION AS OF"):
        table.heads(spark, [KEY])
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {history[1].version}").collect()
    assert table.heads(spark, [KEY])[KEY].number == 2


def clean_up(root: Path, checkpoint: int) -> None:
    """Remove the log files before a checkpoint, as Delta does when they are older than the retention."""
    log = root / "_delta_log"
    assert (log / f"{checkpoint:020d}.checkpoint.parquet").exists()
    for version in range(checkpoint):
        for kind in ("json", "crc"):
            (log / f"{version:020d}.{kind}").unlink(missing_ok=True)


def test_forgotten_chain_is_not_restarted(spark: SparkSession, table: DeltaTable, root: Path, name: str) -> None:
    forgotten = link(1, 0, 5, key=OTHER)
    land(spark, table, forgotten)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.checkpointInterval' = 10)")
    chain = landed(spark, table, 11)
    clean_up(root, 10)

    for one in (fresh_table(root), DeltaTable(root)):
        # The chain's end can be proved, though not its start.
        assert one.heads(spark, [KEY])[KEY].attempt == chain[-1].attempt
        assert found(spark, one) == as_found(chain[7:])
        with pytest.raises(ForgottenChainError, match=r"sink/orders-1: link 1 is its last in delta:.*table, but"):
            one.heads(spark, [KEY, OTHER])
        assert one.keys(spark) == [KEY, OTHER]
        one.open(spark)  # from here on it reads the log's files
    by_spark, by_files = DeltaLog(name), DeltaLog(name)
    by_files.read_from(LocalStore(root))
    for log in (by_spark, by_files):
        assert log.transactions(spark, f"file://{root}") == {app_id(KEY): 11, app_id(OTHER): 1}
    # Delta refuses a member that lands nevertheless: the transaction outlives the history.
    unaware = fresh_table(root)
    unaware._search(spark, {OTHER: 1})
    for owner in (table, one):
        attempt(spark, owner, link(1, 0, 7, key=OTHER))
    assert found(spark, unaware, OTHER) == []
    assert rows(table.read(spark)) == rows_of(forgotten, *chain)


def test_idle_heads_are_restated_within_a_third_of_retention(
    spark: SparkSession, table: DeltaTable, name: str, root: Path
) -> None:
    landed(spark, table, 1)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 9 days')")
    again = DeltaTable(root)
    again.open(spark)
    assert again.restate_after == 3 * 24 * 3600


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ("'delta.setTransactionRetentionDuration' = 'interval 7 days'", "would be forgotten.*UNSET"),
    ],
)
def test_unsuitable_table_is_refused(
    spark: SparkSession, root: Path, name: str, properties: str, expected: str
) -> None:
    spark.sql(f"CREATE TABLE {name} (id BIGINT) USING delta TBLPROPERTIES ({properties})")
    with pytest.raises(HandlerError, match=expected):
        DeltaTable(root).open(spark)


def test_non_delta_table_is_refused(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(root))
    with pytest.raises(HandlerError, match=r"holds Parquet files \(id, .*CONVERT TO DELTA"):
        DeltaTable(root).open(spark)
    spark.sql("CREATE TABLE IF NOT EXISTS plain (id BIGINT) USING parquet")
    with pytest.raises(HandlerError, match="of format parquet, not a Delta table"):
        DeltaTable("plain", staging=tmp_path).open(spark)


def test_unfinished_parquet_file_does_not_prevent_opening(spark: SparkSession, root: Path) -> None:
    """Another process is creating the table: its first file exists, still without a footer."""
    root.mkdir(parents=True)
    (root / "part-00000-torn.snappy.parquet").touch()
    DeltaTable(root).open(spark)


def test_table_created_during_a_start_is_opened(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet_columns = SparkWriter.parquet_columns

    def created_meanwhile(writer: SparkWriter, spark: SparkSession, place: Path | None) -> list[str] | None:
        spark.range(3).write.format("delta").save(str(root))
        return parquet_columns(writer, spark, place)

    monkeypatch.setattr(SparkWriter, "parquet_columns", created_meanwhile)
    table = DeltaTable(root)
    table.open(spark)
    assert table.read(spark).count() == 3


def test_unwritable_staging_directory_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(HandlerError, match=r"give a directory to stage in \(staging\).*a path\? .*with a slash"):
        DeltaTable("default.not_there_yet").open(spark)
    (tmp_path / "file").write_text("")
    with pytest.raises(HandlerError, match=r"cannot stage in .*Not a directory"):
        DeltaTable("default.not_there_yet", staging=tmp_path / "file").open(spark)


def test_session_without_commit_info_is_refused(spark: SparkSession, root: Path) -> None:
    spark.conf.set("spark.databricks.delta.commitInfo.enabled", "false")
    try:
        with pytest.raises(HandlerError, match=r"commitInfo.enabled is false"):
            DeltaTable(root).open(spark)
    finally:
        spark.conf.unset("spark.databricks.delta.commitInfo.enabled")


LEASE_HOLDER = """
import sys
from pathlib import Path
from sarameya_handlers.spark.engines.lease import take_lease
take_lease(Path(sys.argv[1]), "no")
print("held", flush=True)
sys.stdin.read()
"""


def test_second_driver_is_refused_on_a_local_file_system(spark: SparkSession, root: Path) -> None:
    command = [sys.executable, "-c", LEASE_HOLDER, str(root / "_sarameya" / "driver.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(LandingError, match=r"two drivers that commit at once lose a commit: let members share one"):
            DeltaTable(root).open(spark)
        DeltaTable(root, single_driver=True).open(spark)
        other.kill()
    DeltaTable(root).open(spark)
