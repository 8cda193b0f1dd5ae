"""Settings of a Spark session that would lose or change rows, with a real Spark, in this process and behind Connect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.engines.connect import is_connect
from sarameya_handlers.spark.engines.engine import AdoptedEngine
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.iceberg.table import IcebergTable
from sarameya_handlers.spark.parquet.table import ParquetTable
from sarameya_handlers.spark.shaping.decode_options import Decode
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.foreach_batch import ForeachBatch
from sarameya_handlers.spark.tables.table import Layout, Table
from tests.integration.delta_stage import link
from tests.integration.iceberg_stage import new_name
from tests.integration.lake_stage import EITHER, KEY, either, landing_of, rows, rows_of
from tests.integration.shaping.stage import Stage

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves sockets open when rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

HOSTILE = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.int96AsTimestamp": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.avro.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
}
"""Settings each of which has lost or changed rows of a user, or might."""
ODD = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "America/St_Johns",
    "spark.sql.files.maxRecordsPerFile": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.parquet.enableVectorizedReader": "false",
}
"""Settings that a user may want: rows land nevertheless."""
LONG_AGO = -62_000_000_000_000
"""A time in the year 5, in milliseconds, for which legacy modes use another calendar."""
SHAPED = Shaping(value=Decode(format="string"))


@contextmanager
def settings(spark: Any, conf: dict[str, str]) -> Iterator[None]:
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in conf:
            spark.conf.unset(key)


@pytest.fixture(scope="module", params=EITHER)
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    with either(request) as session:
        session.conf.set("spark.sql.session.timeZone", "UTC")
        yield session


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def exact(frame: Any) -> list[tuple[Any, ...]]:
    selected = frame.orderBy("offset").selectExpr(
        "offset", "unix_micros(timestamp)", "value", "key", "typeof(timestamp)"
    )
    return [tuple(row) for row in selected.collect()]


@pytest.mark.parametrize("setting", [*HOSTILE, *ODD])
def test_fault_54_staged_rows_are_the_same_under_any_setting(spark: Any, stage: Stage, setting: str) -> None:
    landing = stage.landing([b"a", None, b"\xff"], timestamps=[LONG_AGO, 0, 1_700_000_000_001], keys=[b"k", None, b""])
    with settings(spark, {setting: (HOSTILE | ODD)[setting]}):
        found = exact(Shaping().frame(spark, landing))
    assert found == [
        (100, LONG_AGO * 1000, b"a", b"k", "timestamp"),
        (101, 0, None, None, "timestamp"),
        (102, 1_700_000_000_001_000, b"\xff", b"", "timestamp"),
    ]


def damage(staged: Path) -> None:
    content = bytearray(staged.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4096] = b"\xff" * 4096
    staged.write_bytes(content)


@pytest.mark.parametrize("break_file", [damage, Path.unlink])
def test_fault_54_damaged_staged_file_raises_despite_settings(
    spark: Any, stage: Stage, break_file: Callable[[Path], None]
) -> None:
    landing = stage.landing([b"x" * 100] * 5000)
    assert landing.staged is not None
    with settings(spark, HOSTILE):
        frame = Shaping().frame(spark, landing)
        break_file(landing.staged.path)
        with pytest.raises(Exception, match=r"FAILED_READ_FILE|does not exist|corrupt|Encountered error"):
            frame.selectExpr("max(value)", "max(headers)", "max(topic)", "sum(offset)", "max(timestamp)").collect()


async def test_fault_54_adopted_session_gets_safe_settings(spark: Any) -> None:
    with settings(spark, HOSTILE | ODD):
        async with AdoptedEngine(spark) as engine:
            found = await engine.run(lambda session, _: {key: session.conf.get(key) for key in HOSTILE | ODD}, tag="t")
            user_settings = {key: spark.conf.get(key) for key in HOSTILE}
    assert user_settings == HOSTILE  # the user's own session is unchanged
    assert {key: found[key] for key in ODD} == ODD
    assert found["spark.sql.ansi.enabled"] == "true"
    assert found["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"
    assert found["spark.sql.timestampType"] == "TIMESTAMP_LTZ"
    rebased = {key: value for key, value in found.items() if "RebaseMode" in key}
    assert set(rebased.values()) == {"CORRECTED"}


KINDS = ["parquet", "parquet, partitioned", "delta", "delta, partitioned", "iceberg", "foreach_batch"]


def table_of(kind: str, spark: Any, directory: Path, called: list[int]) -> Table:
    layout = Layout(partition_by=("topic",)) if kind.endswith("partitioned") else Layout()
    table: Table
    match kind.partition(",")[0]:
        case "parquet":
            table = ParquetTable(directory / "table", layout=layout)
        case "delta":
            table = DeltaTable(directory / "table", layout=layout)
        case "iceberg":
            table = IcebergTable(new_name())
        case _:
            table = ForeachBatch(lambda frame, _, __: called.append(frame.count()), staging=directory / "staging")
    table.open(spark)
    return table


def land(spark: Any, table: Table, one: Link, shape: Shaping, more: int = 0) -> None:
    """Land the link. With `more`, the staged file has that many records fewer than the landing states."""
    landing = landing_of(table, one)
    table.land(spark, [attrs.evolve(landing, records=landing.records + more)], shape, lambda phase, landings: None)


SHAPES = {
    "plain": Shaping(),
    "decoded": SHAPED,
    "dropping": Shaping(transform_sql="select * from batch where offset % 2 = 0"),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_fault_54_missing_staged_records_land_nothing(spark: Any, tmp_path: Path, kind: str, shape: str) -> None:
    called: list[int] = []
    table = table_of(kind, spark, tmp_path, called)
    short = link(1, 0, 5)
    if (kind, shape) == ("delta", "plain") and not is_connect(spark):
        return  # the staged file itself is committed
    with pytest.raises(LandingError, match="of 6 records"):
        land(spark, table, short, SHAPES[shape], more=1)
    assert list(table.links(spark, KEY, 1)) == []
    assert called == []

    whole = link(1, 0, 6)
    land(spark, table, whole, SHAPES[shape])
    if kind == "foreach_batch":
        assert called == [3 if shape == "dropping" else 6]
        return
    assert [one.attempt for one in table.links(spark, KEY, 1)] == [whole.attempt]
    expected = [row for row in rows_of(whole) if shape != "dropping" or row[1] % 2 == 0]
    assert rows(table.read(spark)) == expected


@pytest.mark.parametrize(
    "query",
    [
        "select * from batch limit 1",
        "select * from batch where 1 = 0",
        "select a.* from batch a join batch b using (offset)",
        "select * from batch union all select * from batch",
        "select 1 as one",
    ],
)
def test_fault_54_partial_repeated_and_empty_reads_land(spark: Any, tmp_path: Path, query: str) -> None:
    table = table_of("parquet", spark, tmp_path, [])
    one = link(1, 0, 5)
    land(spark, table, one, Shaping(transform_sql=query))
    assert [found.attempt for found in table.links(spark, KEY, 1)] == [one.attempt]


def test_fault_54_each_landing_of_a_job_is_counted(spark: Any, tmp_path: Path) -> None:
    table = table_of("parquet", spark, tmp_path, [])
    links = [link(1, 0, 5 + n, key=attrs.evolve(KEY, partition=n)) for n in range(6)]
    landings = [landing_of(table, one) for one in links]
    landings[4] = attrs.evolve(landings[4], records=landings[4].records + 1)
    with pytest.raises(LandingError, match=r"orders-4.*9 of 10 records"):
        table.land(spark, landings, SHAPED, lambda phase, _: None)
    assert table.keys(spark) == []
