"""Values that name directories of a table, with a real Spark: they are read back, or become dead letters."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from sarameya import MessageBatch
from sarameya_handlers import DeltaTable, IcebergTable, LandingError, Layout, ParquetTable, SparkSink, read_landing
from sarameya_handlers.landing.dead_letters.files import FileDeadLetters
from sarameya_handlers.landing.directory.compaction import compact
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.poison.poison_search import PoisonError
from sarameya_handlers.spark.tables.settings import temporary_settings
from tests.handlers.kit import FakeClaim, FakeSession, message
from tests.handlers.spark.kit import consume_in
from tests.integration.iceberg_stage import new_name
from tests.integration.lake_stage import either

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sarameya_handlers.spark.tables.table import Table

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves sockets open when rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

ODD = ["a.parquet", "a/b=c", "%2F 50%", " ", "köln €🙂", ".a", "_a", "..", "*", ":?,+&;$|<>~^'\"#\n\\\x7f[]{}", "a}b"]
ODD += ["x" * 249, "ü" * 124, "/" * 83]
"""Values that need escapes. The last three make directory names (`city=...`) just below the limit of 255 bytes."""
LONG = b"x" * 251
UNNAMED = [LONG, b"/" * 84, "ü".encode() * 126, b"a\0b", b"\xff\xfe", b"__HIVE_DEFAULT_PARTITION__"]
"""Values that no directory name can hold, or that would be read back as another value."""
UNIQUE_HOUR, SAME_HOUR = 1792886400_000_001, 1792890000_000_001
"""Two instants in microseconds, an hour apart, at which clocks in Berlin show the same time."""


@pytest.fixture(scope="module", params=["classic"])
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    with either(request) as session:
        yield session


def cities(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("offset", "cast(value as string) as city")


def instants(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("offset", "timestamp_micros(cast(cast(value as string) as bigint)) as at")


def table_of(kind: str, directory: Path, column: str = "city") -> Table:
    layout = Layout(partition_by=(column,))
    if kind == "iceberg":
        return IcebergTable(new_name(), layout=layout, staging=directory / "staging")
    return (ParquetTable if kind == "parquet" else DeltaTable)(directory / "table", layout=layout)


async def land(
    spark: Any, table: Table, values: Sequence[bytes | None], transform: Any = cities, dead: Path | None = None
) -> FakeSession:
    session, claim = FakeSession(), FakeClaim(0)
    messages = [message(n, value=value) for n, value in enumerate(values)]
    claim.send(MessageBatch("orders", 0, messages, len(values), from_offset=0))
    claim.end()
    letters = FileDeadLetters(dead) if dead else None
    async with SparkSink(table, transform=transform, dead_letters=letters, spark=spark) as sink:
        await consume_in(sink, session, claim)
    return session


def by_offset(frame: DataFrame, column: str = "city") -> list[Any]:
    return [row[0] for row in frame.orderBy("offset").selectExpr(column).collect()]


def by_arrow(root: Path) -> list[str | None]:
    hive = ds.partitioning(pa.schema([("city", pa.string())]), flavor="hive")
    table = ds.dataset(root, format="parquet", partitioning=hive).to_table().sort_by("offset")
    return table["city"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
async def test_fault_57_special_values_land_and_are_read_back(spark: Any, tmp_path: Path, kind: str) -> None:
    table, values = table_of(kind, tmp_path), [*ODD, "", None]
    if kind == "iceberg":
        values = [value for value in values if value is None or len(value) < 80]  # Iceberg escapes each byte
    await land(spark, table, [value if value is None else value.encode() for value in values])
    expected = values if kind == "iceberg" else [*ODD, None, None]
    assert by_offset(table.read(spark)) == expected
    root = tmp_path / "table"
    if kind == "parquet":
        for _ in range(2):
            assert by_offset(spark.read.schema("offset bigint, city string").parquet(str(root))) == expected
            assert by_offset(read_landing(spark, root)) == by_arrow(root) == expected
            compact(LocalStore(root), 10**6)
    if kind == "delta":
        rows = deltalake.DeltaTable(root).to_pyarrow_table().sort_by("offset")
        assert rows["city"].to_pylist() == expected


@pytest.mark.parametrize("kind", ["parquet", "delta"])
async def test_fault_57_unusable_values_become_dead_letters(spark: Any, tmp_path: Path, kind: str) -> None:
    """Spark reports too long a directory name like a passing error, and writes invalid UTF-8 as if it were valid."""
    table, values = table_of(kind, tmp_path), [b"a", *UNNAMED, *[b"b"] * 10]
    session = await land(spark, table, values, dead=tmp_path / "dead")
    assert session.marks[-1] == ("orders", 0, len(values))
    assert by_offset(table.read(spark)) == ["a", *["b"] * 10]
    letters = ds.dataset(tmp_path / "dead").to_table().sort_by("offset").to_pylist()
    assert [letter["value"] for letter in letters] == UNNAMED
    expected_error = (
        "rule of partition column city (UTF-8 without NUL, not __HIVE_DEFAULT_PARTITION__, in a directory's name"
    )
    expected_error += " at most 250 bytes: change the value in the transform) is violated"
    assert all(expected_error in letter["error"] for letter in letters)


async def test_fault_57_invalid_partition_value_stops_the_sink(spark: Any, tmp_path: Path) -> None:
    table = table_of("parquet", tmp_path)
    with pytest.raises(PoisonError, match=r"offset 1 of orders-0 cannot land: .*rule of partition column city"):
        await land(spark, table, [b"a", LONG, b"c"])
    assert os.listdir(table.staging.directory) == []
    assert os.listdir(tmp_path / "table") == ["_sarameya"]


async def test_fault_57_value_too_long_for_iceberg_is_not_retried(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(LandingError, match="Mkdirs failed to create"):
        await land(spark, table_of("iceberg", tmp_path), [LONG])


async def test_fault_57_timestamps_name_equal_directories_in_any_zone(spark: Any, tmp_path: Path) -> None:
    names = []
    for zone in ("Europe/Berlin", "America/New_York"):
        table = table_of("parquet", tmp_path / zone, "at")
        with temporary_settings(spark, {"spark.sql.session.timeZone": zone}):
            await land(spark, table, [b"%d" % UNIQUE_HOUR, b"%d" % SAME_HOUR], instants)
        names.append(sorted(path.name for path in (tmp_path / zone / "table").glob("at=*")))
        for reader in ("Europe/Berlin", "UTC"):
            with temporary_settings(spark, {"spark.sql.session.timeZone": reader}):
                assert by_offset(table.read(spark), "unix_micros(at)") == [UNIQUE_HOUR, SAME_HOUR]
                plain = spark.read.option("timeZone", "UTC").schema("offset bigint, at timestamp")
                landed = plain.parquet(str(tmp_path / zone / "table"))
                assert by_offset(landed, "unix_micros(at)") == [UNIQUE_HOUR, SAME_HOUR]
    assert names[0] == names[1] == ["at=2026-10-25 00%3A00%3A00.000001", "at=2026-10-25 01%3A00%3A00.000001"]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
async def test_fault_57_timestamps_as_partitions_are_exact_or_refused(spark: Any, tmp_path: Path, kind: str) -> None:
    values = [b"%d" % UNIQUE_HOUR, b"%d" % SAME_HOUR]
    table = table_of(kind, tmp_path, "at")
    with temporary_settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        if kind == "delta":
            with pytest.raises(LandingError, match=r"at, a timestamp, and .* is Europe/Berlin: set .* to UTC, or"):
                await land(spark, table, values, instants)
        else:
            await land(spark, table, values, instants)
            assert by_offset(table.read(spark), "unix_micros(at)") == [UNIQUE_HOUR, SAME_HOUR]
    if kind == "delta":
        with temporary_settings(spark, {"spark.sql.session.timeZone": "UTC"}):
            await land(spark, table, values, instants)
            assert by_offset(table.read(spark), "unix_micros(at)") == [UNIQUE_HOUR, SAME_HOUR]
