"""Landing in Delta tables with a real Spark, in this process and behind Spark Connect: the contract of a table."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from pyspark.sql.types import StringType

from sarameya import HandlerError
from sarameya_handlers.landing.links import Kind, check_chain
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.delta.history.commits import CommitMark
from sarameya_handlers.spark.delta.history.log import DeltaLog
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.engines.classic import ClassicDriver
from sarameya_handlers.spark.engines.connect import is_connect
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing, Layout, Phase
from tests.integration.delta_stage import attempt, land, link
from tests.integration.lake_stage import EITHER, KEY, OTHER, either, found, rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves the sockets of `collect` to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module", params=EITHER)
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    with either(request) as session:
        yield session


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "a table"


@pytest.fixture
def table(spark: SparkSession, root: Path) -> DeltaTable:
    """Return a table that the first landing will create."""
    table = DeltaTable(root)
    table.open(spark)
    return table


@pytest.fixture(params=["path", "name"])
def place(request: pytest.FixtureRequest, root: Path) -> dict[str, object]:
    """Arguments of a table that has a path or a name."""
    if request.param == "path":
        return {"table": root}
    return {"table": f"default.t{abs(hash(str(root)))}", "staging": root.parent / "staging"}


def test_links_land_and_plain_readers_see_their_rows(spark: SparkSession, place: dict[str, object]) -> None:
    table = DeltaTable(**place)
    table.open(spark)
    assert table.heads(spark, [KEY]) == {}
    assert table.links(spark, KEY, 1) == []
    assert table.keys(spark) == []

    chain = [link(1, 0, 5), link(2, 5, 8), link(3, 8, 8, kind=Kind.RESTATED), link(4, 8, 12, kind=Kind.GAP)]
    others = link(1, 100, 102, key=OTHER)
    for one in (*chain, others):
        land(spark, table, one)
    chain.append(link(5, 12, 12))
    land(spark, table, chain[-1])

    for seen in (table, DeltaTable(**place)):
        links = seen.links(spark, KEY, 1)
        check_chain(links)
        assert [one.attempt for one in links] == [one.attempt for one in chain]
        assert [one.rows for one in links] == [5, 3, 0, 0, 0]
        assert [one.kind for one in links] == [one.kind for one in chain]
        assert all(one.size_bytes > 500 for one in links if one.rows)
        assert [one.number for one in seen.links(spark, KEY, 4)] == [4, 5]
        assert {key: head.attempt for key, head in seen.heads(spark, [KEY, OTHER]).items()} == {
            KEY: chain[-1].attempt,
            OTHER: others.attempt,
        }
        assert seen.keys(spark) == [KEY, OTHER]
        assert rows(seen.read(spark)) == rows_of(chain[0], chain[1], others)
    assert seen.restate_after == 10 * 24 * 3600


def test_attempt_at_a_taken_link_number_is_lost(spark: SparkSession, table: DeltaTable, root: Path) -> None:
    first, second, late = link(1, 0, 5), link(2, 5, 8), link(2, 5, 9)
    land(spark, table, first)
    other = DeltaTable(root)
    other.open(spark)
    other.heads(spark, [KEY])  # so it does not read the table again before it lands
    table.heads(spark, [KEY])
    attempt(spark, table, second)
    attempt(spark, other, late)
    assert found(spark, table) == found(spark, other) == [(1, first.attempt), (2, second.attempt)]
    assert rows(table.read(spark)) == rows_of(first, second)
    # Delta checks before it writes: the only leftover is from the table's creation.
    assert [leftover.what for leftover in table.leftovers(spark)] == ["a data file that no version of the table names"]

    attempt(spark, table, link(1, 0, 3))  # a link that the table object knows is not attempted
    with pytest.raises(LandingError, match="the table has no link 4, only 2"):
        land(spark, table, link(5, 8, 9))
    assert found(spark, table) == [(1, first.attempt), (2, second.attempt)]


def test_single_driver_commits_sparks_rows_directly(spark: SparkSession, table: DeltaTable, root: Path) -> None:
    """The commit has statistics, so Spark skips files. Spark itself commits an added column."""
    shape = Shaping(
        transform=lambda frame: frame.selectExpr(
            "topic", "partition", "offset", "timestamp", "to_date(timestamp) as day", "offset % 2 = 0 as is_even",
            "string(value) as text", "named_struct('at', offset) as place",
        )
    )  # fmt: skip
    phases: list[Phase] = []
    chain = [link(1, 0, 5), link(2, 5, 8), link(3, 8, 8, kind=Kind.RESTATED), link(4, 8, 9)]
    for one in chain:
        land(spark, table, one, shape=shape, checkpoint=lambda phase, landings: phases.append(phase))
    expected = [Phase.READY] if is_connect(spark) else [Phase.WRITTEN, Phase.READY]
    assert phases == expected * 4
    history = spark.sql(f"DESCRIBE HISTORY delta.`{root}`").collect()
    assert ["Sarameya" in row.engineInfo for row in history] == [*[not is_connect(spark)] * 4, False]
    assert [one.rows for one in table.links(spark, KEY, 1)] == [5, 3, 0, 1]
    where = "offset > 4 and timestamp >= '2026-11-22 00:00:00' and day = date'2026-11-22' and text >= '' and is_even"
    assert table.read(spark).where(where).selectExpr("place.at").count() == 2
    files = table.read(spark).where("offset > 4").inputFiles()
    assert len(files) == 2, "the commit's statistics let Spark skip the first file"
    assert [path.name for path in (root / "_sarameya").rglob("*") if path.is_file()] in ([], ["driver.lock"])

    evolving = DeltaTable(root, layout=Layout(evolve_schema=True))
    evolving.open(spark)
    more = Shaping(transform=lambda frame: frame.selectExpr("offset", "value"))
    land(spark, evolving, link(5, 9, 12), link(6, 12, 13), shape=more)
    by = [row.engineInfo for row in spark.sql(f"DESCRIBE HISTORY delta.`{root}` LIMIT 2").collect()]
    assert ["Sarameya" in engine for engine in by] == [not is_connect(spark), False]
    assert evolving.read(spark).where("value is not null and day is null").count() == 4


def test_single_driver_lands_records_without_spark(spark: SparkSession, table: DeltaTable, root: Path) -> None:
    """Spark reads the rows, and itself checks constraints that it adds later."""
    chain = [link(1, 0, 5), link(2, 5, 8), link(3, 8, 9)]
    land(spark, table, *chain[:2])
    assert table.adopts(Shaping()) == (not is_connect(spark))
    assert not table.adopts(Shaping(transform_sql="select * from batch"))
    if not is_connect(spark):  # the owner of a passed session may commit, too
        elsewhere = DeltaTable(root.parent / "elsewhere")
        elsewhere.open(ClassicDriver(spark).open_session())
        assert not elsewhere.adopts(Shaping())
    spark.sql(f"ALTER TABLE delta.`{root}` ADD CONSTRAINT few CHECK (offset < 20)")
    land(spark, table, chain[2])
    by = [row.engineInfo for row in spark.sql(f"DESCRIBE HISTORY delta.`{root}`").collect()]
    adopted = ["Sarameya" in engine for engine in by]
    assert adopted == [False, False, *[not is_connect(spark)] * 2, False]
    assert rows(table.read(spark).where("offset > 4 and timestamp >= '2026-11-22 00:00:00'")) == rows_of(*chain[1:])
    assert rows(table.read(spark)) == rows_of(*chain)
    with pytest.raises(Exception, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        land(spark, table, link(4, 19, 21))


def test_delta_decides_between_two_simultaneous_attempts(spark: SparkSession, table: DeltaTable, root: Path) -> None:
    """The transform of one attempt waits until the other attempt has landed.

    Through Spark Connect, Delta evaluates it within its transaction. Otherwise it ends before the commit, and the
    loser's files are removed.
    """
    first, loser, winner = link(1, 0, 5), link(2, 5, 8), link(2, 5, 9)
    land(spark, table, first)
    other = DeltaTable(root)
    other.open(spark)
    for one in (table, other):
        one.heads(spark, [KEY])
    spark.udf.register("until_landed", _slow(), StringType())
    slowly = Shaping(transform=
        lambda frame: frame.selectExpr(
            "key", f"cast(until_landed('{root}', cast(value as string)) as binary) as value",
            "topic", "partition", "offset", "timestamp", "timestampType", "headers",
        )
    )  # fmt: skip
    late = threading.Thread(target=attempt, args=(spark, table, loser), kwargs={"shape": slowly})
    late.start()
    try:
        _until(root / "begun")
        attempt(spark, other, winner, shape=Shaping(transform=lambda frame: frame))
    finally:
        (root / "landed").touch()
        late.join()
    assert found(spark, table) == [(1, first.attempt), (2, winner.attempt)]
    assert rows(table.read(spark)) == rows_of(first, winner)
    left = table.leftovers(spark)
    lost = 1 if is_connect(spark) else 0
    assert [leftover.what for leftover in left] == ["a data file that no version of the table names"] * (1 + lost)
    for leftover in (*left, *left):
        assert leftover.size_bytes > 0
        table.remove(spark, leftover)
    assert table.leftovers(spark) == []
    assert rows(table.read(spark)) == rows_of(first, winner)


def _until(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.01)


def _slow() -> Callable[[str, str], str]:
    """Return a function for Spark's Python workers, which cannot import this module."""

    def until_landed(root: str, value: str) -> str:
        import time
        from pathlib import Path

        Path(root, "begun").touch()
        end = time.monotonic() + 60
        while not Path(root, "landed").exists() and time.monotonic() < end:
            time.sleep(0.01)
        return value

    return until_landed


def test_first_link_without_records_creates_the_table(spark: SparkSession, table: DeltaTable) -> None:
    named = Shaping(transform=lambda frame: frame.selectExpr("offset as at", "cast(value as string) as what"))
    land(spark, table, link(1, 0, 5, kind=Kind.GAP), shape=named)
    assert [one.number for one in table.links(spark, KEY, 1)] == [1]
    assert table.read(spark).columns == ["at", "what"]
    land(spark, table, link(2, 5, 7), shape=named)
    assert table.read(spark).count() == 2


def test_missing_columns_are_named_or_added(spark: SparkSession, table: DeltaTable, root: Path) -> None:
    land(spark, table, link(1, 0, 2))
    more = Shaping(
        transform=lambda frame: frame.selectExpr("offset", "value", "partition", "named_struct('x', topic) as extra")
    )
    with pytest.raises(LandingError, match=r"the table has no extra struct<x:string>.*evolve_schema = true"):
        land(spark, table, link(2, 2, 4), shape=more)
    with pytest.raises(LandingError, match=r"offset \(string in the rows, bigint in the table\)"):
        land(
            spark,
            table,
            link(2, 2, 4),
            shape=Shaping(transform=lambda frame: frame.selectExpr("string(offset) as offset")),
        )
    assert len(table.leftovers(spark)) == 1, "only the one from the table's creation"

    evolving = DeltaTable(root, layout=Layout(evolve_schema=True))
    evolving.open(spark)
    land(spark, evolving, link(2, 2, 4), shape=more)
    collected = evolving.read(spark).selectExpr("offset", "extra.x", "topic").orderBy("offset").collect()
    assert [tuple(row) for row in collected] == [
        (0, None, "orders"),
        (1, None, "orders"),
        (2, "orders", None),
        (3, "orders", None),
    ]


def test_wider_types_widen_a_table_that_allows_it(spark: SparkSession, root: Path) -> None:
    def of(number: str) -> Shaping:
        return Shaping(
            transform=lambda frame: frame.selectExpr("offset", f"{number}(offset) as n", f"array({number}(1)) as list")
        )

    evolving = DeltaTable(root, layout=Layout(evolve_schema=True))
    evolving.open(spark)
    land(spark, evolving, link(1, 0, 2), shape=of("int"))
    with pytest.raises(LandingError, match=r"n \(bigint in the rows, int in the table\).* are incompatible"):
        land(spark, evolving, link(2, 2, 4), shape=of("bigint"))
    spark.sql(f"ALTER TABLE delta.`{root}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    fixed = DeltaTable(root)
    fixed.open(spark)
    with pytest.raises(LandingError, match=r"are wider than the table's.*evolve_schema = true"):
        land(spark, fixed, link(2, 2, 4), shape=of("bigint"))
    evolving.open(spark)
    land(spark, evolving, link(2, 2, 4), shape=of("bigint"))
    land(spark, evolving, link(3, 4, 5), shape=of("int"))
    assert dict(evolving.read(spark).dtypes) == {"offset": "bigint", "n": "bigint", "list": "array<bigint>"}
    assert sorted(row.n for row in evolving.read(spark).collect()) == [*range(5)]


def test_narrower_types_and_other_column_order_are_accepted(spark: SparkSession, table: DeltaTable) -> None:
    land(spark, table, link(1, 0, 2))
    land(
        spark,
        table,
        link(2, 2, 4),
        shape=Shaping(transform=lambda frame: frame.selectExpr("value", "int(offset) as OFFSET", "partition")),
    )
    assert [row[0] for row in table.read(spark).select("offset").orderBy("offset").collect()] == [0, 1, 2, 3]


def test_table_is_partitioned_within_the_limit(spark: SparkSession, root: Path) -> None:
    dated = Shaping(transform=lambda frame: frame.selectExpr("*", "to_date(timestamp) as day"))
    table = DeltaTable(root, layout=Layout(partition_by=("day", "topic"), max_partitions=3))
    table.open(spark)
    few = link(1, 0, 9)
    land(spark, table, few, days=3, shape=dated)
    with pytest.raises(LandingError, match="more than 3 partitions"):
        land(spark, table, link(2, 9, 18), days=4, shape=dated)
    assert len(list(root.glob("day=*/topic=orders/part-*.parquet"))) == 3, "one file for each"
    assert rows(table.read(spark)) == rows_of(few)

    DeltaTable(root).open(spark)
    with pytest.raises(HandlerError, match=r"partitioned by \(day, topic\), not by \(day\)"):
        DeltaTable(root, layout=Layout(partition_by=("day",))).open(spark)


def test_batch_without_rows_is_committed_as_a_link(spark: SparkSession, table: DeltaTable) -> None:
    land(spark, table, link(1, 0, 5), shape=Shaping(transform=lambda frame: frame.where("offset < 0")))
    assert [one.rows for one in table.links(spark, KEY, 1)] == [0]
    assert table.read(spark).count() == 0


def test_older_versions_stay_readable(spark: SparkSession, table: DeltaTable) -> None:
    chain = [link(1, 0, 5), link(2, 5, 8), link(3, 8, 9)]
    for one in chain:
        land(spark, table, one)
    assert table.heads_at(spark, "0") == {}
    assert table.heads_at(spark, "2")[KEY].attempt == chain[1].attempt
    assert rows(table.read(spark, "2")) == rows_of(*chain[:2])
    for version in ("9", "-1", "yesterday"):
        with pytest.raises(HandlerError, match="version"):
            table.heads_at(spark, version)
        with pytest.raises(HandlerError, match="version"):
            table.read(spark, version)


def test_log_files_equal_describe_history(spark: SparkSession, table: DeltaTable, root: Path) -> None:
    """Covers commits by DELETE, UPDATE, OPTIMIZE, ALTER TABLE and RESTORE."""
    for number in (1, 2, 3):
        land(spark, table, link(number, 5 * number, 5 * number + 5))
    name = f"delta.`{root}`"
    for statement in (
        f"DELETE FROM {name} WHERE offset = 7",
        f"UPDATE {name} SET topic = 'other' WHERE offset = 8",
        f"OPTIMIZE {name}",
        f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        f"RESTORE TABLE {name} TO VERSION AS OF 2",
    ):
        spark.sql(statement).collect()
    by_sql, by_files = DeltaLog(name), DeltaLog(name)
    by_files.read_from(LocalStore(root))
    commits = [[attrs.evolve(one, stamp="") for one in log.commits(spark)] for log in (by_sql, by_files)]
    assert commits[0] == commits[1]
    assert [one.restores for one in commits[0]] == [2, *[None] * 8]
    assert [one.mark and one.mark.link.rows for one in commits[0]] == [*[None] * 5, 5, 5, 5, None]


def test_commit_mark_has_the_version_that_its_writer_knew(spark: SparkSession, table: DeltaTable, root: Path) -> None:
    land(spark, table, link(1, 0, 1))
    land(spark, table, link(2, 1, 2))
    metadata = [row.userMetadata for row in spark.sql(f"DESCRIBE HISTORY delta.`{root}`").collect()]
    marks = [CommitMark.from_json(text) for text in metadata]
    # Spark gets the mark before the table is created.
    seen = -1 if is_connect(spark) else 0
    assert [mark and (mark.link.number, mark.seen, mark.term) for mark in marks] == [(2, 1, 0), (1, seen, 0), None]


def test_landing_continues_during_a_compaction(spark: SparkSession, table: DeltaTable, root: Path) -> None:
    """The compaction commits after the landing has read the table, and before it commits."""
    chain = [link(n, n, n + 1) for n in (1, 2, 3)]
    land(spark, table, *chain[:2])
    phases: list[Phase] = []

    def compact(phase: Phase, landings: Sequence[Landing]) -> None:
        if not phases:
            assert spark.sql(f"OPTIMIZE delta.`{root}`").collect()[0].metrics.numFilesRemoved == 2
        phases.append(phase)

    land(spark, table, chain[2], checkpoint=compact)
    assert phases == [Phase.READY] * (1 if is_connect(spark) else 2), "a commit without Spark reads the table again"
    assert found(spark, table) == [(one.number, one.attempt) for one in chain]
    assert rows(table.read(spark)) == rows_of(*chain)


def test_table_is_readable_by_other_delta_readers(spark: SparkSession, table: DeltaTable, root: Path) -> None:
    one = link(1, 0, 5)
    land(spark, table, one)
    staged = table.staging.directory / f"{'0' * 32}.parquet"
    staged.write_bytes(b"not for readers")
    assert rows(spark.read.format("delta").load(str(root))) == rows_of(one)
    assert [leftover.what for leftover in table.leftovers(spark)][:1] == ["a staged file"]


def test_transform_error_is_raised_and_nothing_lands(spark: SparkSession, table: DeltaTable) -> None:
    def fails(frame: DataFrame) -> DataFrame:
        raise ValueError("no")

    with pytest.raises(LandingError, match="transform fails: ValueError: no"):
        land(spark, table, link(1, 0, 5), shape=Shaping(transform=fails))
    assert table.links(spark, KEY, 1) == []
