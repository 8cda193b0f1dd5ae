"""`sarameya verify` and `rewind` for tables that a sink has filled from Apache Kafka; Spark counts rows."""

from __future__ import annotations

import json
import shutil
import sysconfig
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.dataset
import pytest
import trio

from sarameya import Config, ConsumerGroup, GroupAdmin
from sarameya_handlers import ParquetTable, SparkSink
from sarameya_handlers.audit.facts import BEYOND, FORGOTTEN, Span
from sarameya_handlers.audit.verify.arrow_counting import count_batches
from sarameya_handlers.audit.verify.counting import count_frame, why_uncountable
from sarameya_handlers.audit.verify.spans import END
from sarameya_handlers.landing.errors import RewoundTableError
from tests.conformance.engines import ThreadEngine
from tests.handlers.audit.kit import Row, count_rows
from tests.integration.connect_server import ConnectServer
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import send
from tests.integration.warm_spark import warm_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves the sockets of `collect` to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SARAMEYA = str(Path(sysconfig.get_path("scripts"), "sarameya"))
DEADLINE = 120.0


@attrs.frozen
class Outcome:
    """Output and exit code of a `sarameya` process."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def contradictions(self) -> set[tuple[str, str]]:
        """Return code and place of each finding that contradicts the proof."""
        found = self.document["findings"]
        return {(one["code"], one["where"]) for one in found if one["severity"] != "note" and not one["accepted"]}


async def sarameya(*arguments: object) -> Outcome:
    command = [SARAMEYA, *map(str, arguments), "--json", "--quiet"]
    with trio.fail_after(DEADLINE):
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


# -- tables of a sink -----------------------------------------------------------------------------


@attrs.frozen
class Stage:
    """A topic, and the Parquet table in which it lands."""

    kafka: RealKafka
    topic: str
    table: ParquetTable

    @property
    def servers(self) -> str:
        return ",".join(self.kafka.bootstrap_servers)

    async def produce(self, count: int) -> set[tuple[int, int]]:
        records = [{"value": b"v%d" % n, "partition": n % 3} for n in range(count)]
        return await trio.to_thread.run_sync(send, self.kafka, self.topic, records)

    @asynccontextmanager
    async def landing(self) -> AsyncIterator[ConsumerGroup]:
        """Run a member that lands until the block ends."""
        sink = SparkSink(self.table, max_rows=100, max_age=0.2, spark=ThreadEngine())
        config = Config(offset_initial="oldest", autocommit_interval=0.2)
        group = ConsumerGroup(self.kafka.bootstrap_servers, self.topic, config)
        async with sink, group, trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, [self.topic], sink)
            yield group
            group.close_nowait()

    async def land(self, offsets: int) -> None:
        """Land until the committed offsets of all partitions add up to `offsets`."""
        with trio.fail_after(DEADLINE):
            async with self.landing():
                await self.committed(offsets)

    async def committed(self, offsets: int) -> None:
        """Wait until the committed offsets of all partitions add up to `offsets`."""
        async with GroupAdmin(self.kafka.bootstrap_servers, Config(), lambda event: None) as admin:
            while sum(commit.offset for commit in (await admin.committed(self.topic)).values()) < offsets:
                await trio.sleep(0.1)

    async def verify(self, *arguments: str) -> Outcome:
        return await sarameya("verify", self.table.path, "--bootstrap-servers", self.servers, *arguments)

    async def rewind(self, *arguments: str) -> Outcome:
        return await sarameya("rewind", self.table.path, "--bootstrap-servers", self.servers, *arguments)

    def landed(self) -> list[tuple[int, int]]:
        rows = pyarrow.dataset.dataset(self.table.path, format="parquet").to_table(columns=["partition", "offset"])
        return sorted(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))


@pytest.fixture
def stage(real_kafka: RealKafka, tmp_path: Path, request: pytest.FixtureRequest) -> Stage:
    topic = request.node.name.replace("_", "-")[:60]
    real_kafka.create_topic(topic, 3)
    return Stage(real_kafka, topic, ParquetTable(tmp_path / "landing"))


async def test_table_is_verified_during_and_after_landing(stage: Stage) -> None:
    produced = await stage.produce(3000)
    with trio.fail_after(DEADLINE):
        await verify_while_landing(stage, produced)


async def verify_while_landing(stage: Stage, produced: set[tuple[int, int]]) -> None:
    async with stage.landing():
        await stage.committed(500)
        for _ in range(3):
            outcome = await stage.verify()
            assert outcome.code == 0, outcome.out
            produced |= await stage.produce(600)
        await stage.committed(len(produced))
    outcome = await stage.verify()
    assert outcome.code == 0, outcome.out
    document = outcome.document
    assert document["rows"] == len(produced)
    assert [chain["lag"] for chain in document["chains"]] == [0, 0, 0]
    assert [chain["committed_link"]["number"] for chain in document["chains"]] == [
        chain["head"]["number"] for chain in document["chains"]
    ]
    assert stage.landed() == sorted(produced)


async def test_damage_to_a_table_is_found(stage: Stage) -> None:
    await stage.produce(300)
    await stage.land(300)
    [key, *_] = stage.table.keys(None)  # type: ignore[arg-type]
    first = stage.table.links(None, key, 1)[0]  # type: ignore[arg-type]
    [file, *_] = sorted(stage.table.path.glob(f"part-*-{key.partition}-{first.from_offset:020}-*.parquet"))
    duplicate = file.with_name("mine.parquet")

    shutil.copy(file, duplicate)
    found = {("rows-extra", str(key)), ("offsets-repeated", str(key))}
    assert (await stage.verify()).contradictions == found
    duplicate.unlink()
    file.rename(stage.table.path.parent / "away.parquet")
    assert (await stage.verify()).contradictions == {("rows-unreadable", "")}
    (stage.table.path.parent / "away.parquet").rename(file)
    assert (await stage.verify()).code == 0


async def test_table_restored_from_a_backup_lands_after_a_rewind(stage: Stage) -> None:
    """The sink refuses the restored directory until the group's offsets match. Then each row is there exactly once."""
    backup = stage.table.path.parent / "backup"
    produced = await stage.produce(900)
    await stage.land(900)
    shutil.copytree(stage.table.path, backup)
    produced |= await stage.produce(600)
    await stage.land(1500)
    assert (await stage.verify()).code == 0

    shutil.rmtree(stage.table.path)
    backup.rename(stage.table.path)
    outcome = await stage.verify()
    assert outcome.code == 1
    assert {code for code, _ in outcome.contradictions} == {"table-rewound"}
    with pytest.RaisesGroup(pytest.RaisesExc(RewoundTableError), flatten_subgroups=True), trio.fail_after(DEADLINE):
        async with stage.landing():
            await trio.sleep_forever()

    shown = await stage.rewind("--to-head")
    assert shown.code == 0, shown.err
    assert (await stage.verify()).code == 1, "without --execute nothing has changed"
    done = await stage.rewind("--to-head", "--execute")
    assert done.code == 0, done.err
    assert [chain["new"]["offset"] for chain in done.document["chains"]] == [300, 300, 300]
    assert (await stage.verify()).code == 0
    await stage.land(1500)
    outcome = await stage.verify()
    assert outcome.code == 0, outcome.out
    assert outcome.document["rows"] == 1500
    assert stage.landed() == sorted(produced)


# -- rows counted by Spark -----------------------------------------------------------------------

SPANS = (
    Span("orders", 0, 0, 10, "warehouse", FORGOTTEN),
    Span("orders", 0, 10, 20, "warehouse", 5),
    Span("orders", 0, 20, 1000, "warehouse", 6),
    Span("orders", 0, 1000, 1001, "warehouse", 8),
    Span("orders", 0, 1001, END, "warehouse", BEYOND),
    Span("payments", 7, 3, 6, "warehouse", 1),
    Span("payments", 7, 6, END, "warehouse", BEYOND),
)

ROWS: list[Row] = [
    *(("orders", 0, n) for n in (0, 1, 2, 2, 9, 10, 11, 19, 20, 20, 500, 999, 1000, 1001, 5000, 32_768, 32_769, 2**40)),
    *(("orders", 0, n) for n in range(100, 400)),
    *(("payments", 7, n) for n in (2, 3, 4, 5, 5, 5, 6)),
    *(("orders", 1, n) for n in (4, 4, 8)),
    (None, 1, 2),
    ("orders", None, 2),
    ("orders", 0, None),
]


def arrow_rows(rows: list[Row]) -> pa.Table:
    types = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
    return pa.table({name: pa.array([row[n] for row in rows], kind) for n, (name, kind) in enumerate(types.items())})


@pytest.fixture(params=["classic", "Connect"])
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    if request.param == "classic":
        with warm_spark() as session:
            yield session
        return
    server: ConnectServer = request.getfixturevalue("lake_server")
    with server.session() as connected:
        yield connected  # type: ignore[misc]  # the same methods


def test_spark_counts_the_same_rows_as_python(spark: SparkSession) -> None:
    frame = spark.createDataFrame(arrow_rows(ROWS))
    assert why_uncountable(frame) == ""
    counts = count_frame(spark, frame, SPANS)
    assert counts == count_rows(ROWS, SPANS)
    assert counts == count_batches(arrow_rows(ROWS).to_batches(max_chunksize=50), SPANS)
    assert count_frame(spark, frame.limit(0), SPANS) == count_rows([], SPANS)
    assert count_frame(spark, frame, ()) == count_rows(ROWS, ())
    assert "no column 'offset'" in why_uncountable(frame.drop("offset"))
    assert "wrong type" in why_uncountable(frame.selectExpr("topic", "partition", "cast(offset as string) offset"))
