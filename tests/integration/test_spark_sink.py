"""Landings with a real Spark in a real Parquet table, read back by Spark and by pyarrow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import trio
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import collect_list

from sarameya import Config, ConsumerGroup, MessageBatch
from sarameya.arrow import kafka_schema
from sarameya.embedded import EmbeddedCluster
from sarameya_handlers import LandingError, Layout, ParquetTable, SparkSink, read_landing
from sarameya_handlers.landing.directory.compaction import compact
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.shaping.partitions import with_event_date
from tests.handlers.kit import FakeClaim, FakeSession, batch, claim_of, message
from tests.handlers.spark.kit import consume_in
from tests.handlers.spark.transforms import values
from tests.integration.warm_spark import warm_spark

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves sockets open when rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

DEADLINE = 120.0


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with warm_spark() as session:
        yield session


def hidden_files(path: Path) -> list[Path]:
    """Return the files of unfinished landings, which no link names."""
    hidden = path / "_sarameya"
    return [file for place in ("staging", "landing") for file in (hidden / place).rglob("*") if file.is_file()]


async def test_group_lands_every_record_once(spark: SparkSession, tmp_path: Path) -> None:
    """Four partitions land in one directory at the same time, in many small landings."""
    table = ParquetTable(tmp_path / "orders")
    topics = {"orders": 4}
    async with EmbeddedCluster(topics=topics) as cluster:
        for n in range(2000):
            headers = [("n", str(n).encode()), ("none", None)] if n % 3 else []
            key, value = (None if n % 5 == 0 else b"k%d" % n), (None if n % 7 == 0 else b"v%d" % n)
            cluster.produce("orders", n % 4, value, key, headers, timestamp=1_700_000_000_000 + n)
        sink = SparkSink(table, max_rows=200, max_age=0.5, spark=spark)
        # A busy machine must not cost the membership: the next owner would repeat the work that is not committed.
        config = Config(offset_initial="oldest", autocommit_interval=0.1, session_timeout=60.0)
        with trio.fail_after(DEADLINE):
            async with (
                sink,
                ConsumerGroup(cluster.bootstrap_servers, "landing", config) as group,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(group.consume, ["orders"], sink)
                while sum(committed.offset for committed in cluster.committed("landing").values()) < 2000:
                    await trio.sleep(0.05)
                group.close_nowait()

    landed = pq.read_table(table.path, schema=kafka_schema().remove_metadata()).sort_by("timestamp")
    assert landed.num_rows == 2000
    assert landed["partition"].to_pylist() == [n % 4 for n in range(2000)]
    assert landed["offset"].to_pylist() == [n // 4 for n in range(2000)]
    assert landed["key"].to_pylist() == [None if n % 5 == 0 else b"k%d" % n for n in range(2000)]
    assert landed["value"].to_pylist() == [None if n % 7 == 0 else b"v%d" % n for n in range(2000)]
    assert pc.cast(landed["timestamp"], "int64").to_pylist() == [(1_700_000_000_000 + n) * 1000 for n in range(2000)]
    assert landed["headers"].to_pylist() == [
        [{"key": "n", "value": str(n).encode()}, {"key": "none", "value": None}] if n % 3 else None for n in range(2000)
    ]
    assert hidden_files(table.path) == []
    read_back = spark.read.parquet(str(table.path))
    assert read_back.count() == 2000
    assert read_back.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )


async def test_transform_with_a_python_function_runs_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The path has a space, and is below directories that Spark regards as hidden."""
    table = ParquetTable(tmp_path / "_data" / ".of mine" / "orders")
    session = FakeSession()
    async with SparkSink(table, transform=values, spark=spark) as sink:
        await consume_in(sink, session, claim_of([batch(0, 4, value=b"ab")]))
    (file,) = table.path.glob("*.parquet")
    assert pq.read_table(file).to_pylist() == [{"offset": 0, "text": "abab"}, {"offset": 2, "text": "abab"}]
    assert session.marks == [("orders", 0, 4)]


async def test_refused_transform_is_one_line_and_lands_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table, session = ParquetTable(tmp_path), FakeSession()
    async with SparkSink(table, transform=lambda frame: frame.select("no_such"), spark=spark) as sink:
        with pytest.raises(LandingError, match=r"orders-0 \[0, 4\) .*UNRESOLVED_COLUMN.*no_such") as raised:
            await consume_in(sink, session, claim_of([batch(0, 4)]))
    assert "\n" not in str(raised.value)
    assert session.marks == []
    assert os.listdir(tmp_path) == ["_sarameya"]
    assert hidden_files(tmp_path) == []


async def test_failing_spark_task_is_one_line_and_lands_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table, session = ParquetTable(tmp_path), FakeSession()
    refuse = lambda frame: frame.selectExpr("raise_error('bad record') as x")  # noqa: E731
    async with SparkSink(table, transform=refuse, spark=spark) as sink:
        with pytest.raises(LandingError, match="bad record") as raised:
            await consume_in(sink, session, claim_of([batch(0, 4)]))
    assert "\n" not in str(raised.value)
    assert session.marks == []
    assert os.listdir(tmp_path) == ["_sarameya"]
    assert hidden_files(tmp_path) == []


async def test_cancelled_flush_ends_its_spark_job(spark: SparkSession, tmp_path: Path) -> None:
    table, session, claim = ParquetTable(tmp_path), FakeSession(), FakeClaim()
    claim.send(batch(0, 10))

    def endless(frame: DataFrame) -> DataFrame:
        return frame.crossJoin(spark.range(10**12).selectExpr("id as other")).where("other % 1000003 = offset")

    async with SparkSink(table, max_rows=10, transform=endless, spark=spark) as sink:
        with trio.fail_after(DEADLINE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consume_in, sink, session, claim)
                await until(lambda: spark.sparkContext.statusTracker().getActiveJobsIds() != [])
                cancelled = trio.current_time()
                nursery.cancel_scope.cancel()
            assert trio.current_time() - cancelled < 5
            await until(lambda: spark.sparkContext.statusTracker().getActiveJobsIds() == [])
            await until(lambda: hidden_files(tmp_path) == [])
    assert session.marks == []
    assert os.listdir(tmp_path) == ["_sarameya"]


async def until(condition: Any) -> None:
    while not condition():
        await trio.sleep(0.05)


async def test_partitions_due_together_land_in_one_job(spark: SparkSession, tmp_path: Path) -> None:
    """Each partition lands in its own file, whatever the transform drops; from two of them it drops all rows."""
    table = ParquetTable(tmp_path / "orders")

    def odd_partitions(frame: DataFrame) -> DataFrame:
        return frame.where("partition % 2 = 1").selectExpr("concat(partition, ':', offset) as place")

    claims = [FakeClaim(partition=partition) for partition in range(4)]
    session = FakeSession()
    before = spark.conf.get("spark.sql.maxConcurrentOutputFileWriters")
    jobs = job_count(spark)
    async with SparkSink(table, transform=odd_partitions, spark=spark) as sink, trio.open_nursery() as nursery:
        for claim in claims:
            nursery.start_soon(consume_in, sink, session, claim)
        await until(lambda: all(claim.is_read for claim in claims))
        for claim in claims:
            claim.send(batch(0, 10, partition=claim.partition))
            claim.end()
    assert job_count(spark) - jobs == 1
    assert sorted(session.marks) == [("orders", partition, 10) for partition in range(4)]
    files = {file.name.split("-")[2]: pq.read_table(file)["place"].to_pylist() for file in table.path.glob("*.parquet")}
    assert files == {p: [f"{p}:{offset}" for offset in range(10)] for p in ("1", "3")}
    assert read_landing(spark, table.path).distinct().count() == 20
    assert spark.conf.get("spark.sql.maxConcurrentOutputFileWriters") == before
    assert hidden_files(table.path) == []


async def test_partition_columns_become_directories(spark: SparkSession, tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "orders", layout=Layout(partition_by=("day",), max_partitions=2))
    session = FakeSession()

    def by_day(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("offset", "offset % 2 as day")

    async with SparkSink(table, transform=by_day, spark=spark) as sink, trio.open_nursery() as nursery:
        for partition in range(2):
            claim = claim_of([batch(0, 4, partition=partition)], partition=partition)
            nursery.start_soon(consume_in, sink, session, claim)
    assert len(list(table.path.glob("day=*/*.parquet"))) == 4
    landed = read_landing(spark, table.path)
    assert (landed.count(), landed.where("day = offset % 2").count()) == (8, 8)
    assert landed.groupBy("day", "offset").count().where("count = 2").count() == 4


async def test_invalid_days_land_in_one_partition(spark: SparkSession, tmp_path: Path) -> None:
    """Negative, 1970, 2099, beyond what a timestamp holds, out of order."""
    day, now = 86_400_000, 1_700_000_000_000
    timestamps = [-1, now, -(2**41), 0, 4_070_908_800_000, now - day, 2**62, -(2**62)]
    timestamps += [day * n for n in range(40_000, 40_100)]
    messages = [message(offset, timestamp=at) for offset, at in enumerate(timestamps)]
    table = ParquetTable(tmp_path / "orders", layout=Layout(partition_by=("event_date",), max_partitions=3))
    transform = lambda frame: with_event_date(frame, "2020-01-01", "2039-12-31")  # noqa: E731
    session = FakeSession()
    async with SparkSink(table, transform=transform, spark=spark) as sink:
        claim = claim_of([MessageBatch("orders", 0, messages, len(messages), from_offset=0)])
        await consume_in(sink, session, claim)
    assert session.marks == [("orders", 0, len(timestamps))]
    landed = {str(row.event_date): sorted(row.offsets) for row in _offsets_by_day(read_landing(spark, table.path))}
    others = sorted({*range(len(timestamps))} - {1, 5})
    assert landed == {"2023-11-14": [1], "2023-11-13": [5], "None": others}
    assert len(list(table.path.glob("event_date=*/*.parquet"))) == 3


def _offsets_by_day(frame: DataFrame) -> list[Any]:
    return frame.groupBy("event_date").agg(collect_list("offset").alias("offsets")).collect()


async def test_batches_exceeding_max_partitions_only_together_land(spark: SparkSession, tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "orders", layout=Layout(partition_by=("day",), max_partitions=2))
    claims, session = [FakeClaim(partition=partition) for partition in range(2)], FakeSession()
    own_days = lambda frame: frame.selectExpr("offset", "partition * 10 + offset as day")  # noqa: E731
    async with SparkSink(table, transform=own_days, spark=spark) as sink, trio.open_nursery() as nursery:
        for claim in claims:
            nursery.start_soon(consume_in, sink, session, claim)
        await until(lambda: all(claim.is_read for claim in claims))
        for claim in claims:
            claim.send(batch(0, 2, partition=claim.partition))
            claim.end()
    assert sorted(path.name for path in table.path.glob("day=*")) == ["day=0", "day=1", "day=10", "day=11"]


async def test_batch_exceeding_max_partitions_stops_before_writing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(*_: object) -> None:
        raise AssertionError("rows were written")

    monkeypatch.setattr("sarameya_handlers.spark.parquet.file_writer.write_each", written)
    table = ParquetTable(tmp_path / "orders", layout=Layout(partition_by=("day",), max_partitions=3))
    session = FakeSession()
    spread = lambda frame: frame.selectExpr("offset", "offset as day")  # noqa: E731
    async with SparkSink(table, transform=spread, spark=spark) as sink:
        with pytest.raises(LandingError, match=r"more than 3 partitions by day \("):
            await consume_in(sink, session, claim_of([batch(0, 4)]))
    assert session.marks == []
    assert os.listdir(table.path) == ["_sarameya"]
    assert hidden_files(table.path) == []


async def test_rows_with_other_columns_are_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "orders")
    await land(spark, table, range(4), "offset", "topic as name")
    await land(spark, table, range(4, 8), "topic as NAME", "int(offset) as offset")
    await land(spark, table, range(8, 12), "offset")
    rules = rf"do not fit parquet:{table.path}, which has one schema for the rows of all topics that land there: "
    for columns, problem in [
        (
            ("string(offset) as offset", "topic as name"),
            r"the types of offset \(string in the rows, bigint in the table\)",
        ),
        (("offset", "1 as more"), r"the table has no more int not null: .*, or set evolve_schema = true"),
    ]:
        with pytest.raises(LandingError, match=rules + problem):
            await land(spark, table, range(12, 16), *columns)
    with pytest.raises(LandingError, match=r"the table has no key binary, value binary, .*evolve_schema"):
        async with SparkSink(table, spark=spark) as sink:
            await consume_in(sink, FakeSession(), claim_of([batch(12, 4)]))
    assert hidden_files(table.path) == []
    landed = [tuple(row) for row in read_landing(spark, table.path).orderBy("offset").collect()]
    assert landed == [(n, "orders" if n < 8 else None) for n in range(12)]
    assert {tuple(pq.read_schema(file).names) for file in table.path.glob("*.parquet")} == {("offset", "name")}


@pytest.mark.parametrize("without_schemas", [False, True])
async def test_added_columns_are_null_in_earlier_rows(
    spark: SparkSession, tmp_path: Path, without_schemas: bool
) -> None:
    """Covers partitioned directories, columns within structs, and compacted tables."""
    layout = Layout(partition_by=("day",), evolve_schema=True)
    table = ParquetTable(tmp_path / "orders", layout=layout)
    day = "if(offset % 2 = 0, to_date('2026-01-02'), null) as day"
    await land(spark, table, range(2), "offset", day, "named_struct('x', 1) as at")
    await land(spark, table, range(2, 4), "offset", day, "named_struct('x', 1) as at")
    if without_schemas:
        shutil.rmtree(table.path / "_sarameya" / "schemas")
        table = ParquetTable(tmp_path / "orders", layout=layout)
    await land(
        spark, table, range(4, 6), "named_struct('y', 'b', 'X', 2) as at", day, "offset", "timestamp", "topic as name"
    )
    await land(spark, table, range(6, 8), "offset", day, "topic as name")
    jobs = job_count(spark)
    landed = read_landing(spark, table.path)
    assert job_count(spark) == jobs, "no job reads the columns of files"
    assert landed.schema.simpleString() == (
        "struct<offset:bigint,at:struct<x:int,y:string>,timestamp:timestamp,name:string,day:date>"
    )
    expected = [
        (
            n,
            None if n > 5 else 1 if n < 4 else 2,
            "b" if n in (4, 5) else None,
            n in (4, 5),
            "orders" if n > 3 else None,
        )
        for n in range(8)
    ]
    columns = ("offset", "at.x", "at.y", "timestamp is not null", "name")
    for _ in range(2):
        landed = read_landing(spark, table.path).orderBy("offset")
        assert [tuple(row) for row in landed.selectExpr(*columns).collect()] == expected
        assert [row["day"] for row in landed.collect()] == [None if n % 2 else date(2026, 1, 2) for n in range(8)]
        compact(LocalStore(table.path), 10**6)
    assert len(list(table.path.glob("day=*/*.parquet"))) == 4, (
        "two partitions; files with different structs are not merged"
    )
    assert sum(batch.num_rows for batch in table.batches(["offset", "name", "day"])) == 8


async def land(spark: SparkSession, table: ParquetTable, offsets: range, *columns: str) -> None:
    """Land the next link of a partition, with these columns."""
    session = FakeSession()
    async with SparkSink(table, transform=lambda frame: frame.selectExpr(*columns), spark=spark) as sink:
        await consume_in(sink, session, claim_of([batch(offsets.start, len(offsets))]))


def job_count(spark: SparkSession) -> int:
    """Return the number of jobs so far."""
    return int(spark.sparkContext._jsc.sc().statusStore().jobsList(None).size())
