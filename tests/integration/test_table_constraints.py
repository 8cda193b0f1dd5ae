"""Records that a table's own write refuses, found with a real Spark: the others land."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from sarameya import MessageBatch
from sarameya_handlers import DeltaTable, IcebergTable, LandingError, SparkSink
from sarameya_handlers.landing.dead_letters.files import FileDeadLetters
from tests.handlers.kit import FakeClaim, FakeSession, message
from tests.handlers.spark.kit import consume_in
from tests.integration.lake_stage import EITHER, either
from tests.integration.lakes import ICEBERG_CATALOG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sarameya_handlers.spark.tables.table import Table

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves each socket that rows come over to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module", params=EITHER)
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    with either(request, compiles=True) as session:
        yield session


def shaped(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("cast(cast(value as string) as int) as n", "offset", "named_struct('a', offset) as s")


def claim_of(values: Sequence[bytes | None], first: int = 0) -> FakeClaim:
    """Return a claim with records of these values, which stops after them."""
    claim = FakeClaim(first)
    messages = [message(first + n, value=value) for n, value in enumerate(values)]
    claim.send(MessageBatch("orders", 0, messages, first + len(values), from_offset=first))
    claim.end()
    return claim


async def land_more(spark: SparkSession, table: Table, values: Sequence[bytes | None], letters: Path) -> FakeSession:
    """Land these values after the ten records of the first landing."""
    session, dead = FakeSession(), FileDeadLetters(letters)
    async with SparkSink(table, transform=shaped, dead_letters=dead, spark=spark) as sink:
        await consume_in(sink, session, claim_of(values, 10))
    return session


async def land_first(spark: SparkSession, table: Table) -> None:
    async with SparkSink(table, transform=shaped, spark=spark) as sink:
        await consume_in(sink, FakeSession(), claim_of([b"1"] * 10))


def errors_by_offset(letters: Path) -> dict[int, str]:
    rows = [row for file in letters.iterdir() for row in pq.read_table(file).to_pylist()]
    return {row["offset"]: row["error"] for row in rows}


async def check_record_without_n_is_a_dead_letter(spark: SparkSession, table: Table, dead: Path) -> None:
    values: list[bytes | None] = [b"%d" % n for n in range(30)]
    values[4] = None
    await land_first(spark, table)
    await land_more(spark, table, values, dead)

    assert table.read(spark).count() == 39
    letters = errors_by_offset(dead)
    assert list(letters) == [14]
    assert "NOT NULL constraint of n is violated" in letters[14]


async def test_records_failing_a_delta_constraint_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "orders")
    await land_first(spark, table)
    spark.sql(f"ALTER TABLE delta.`{tmp_path}/orders` ADD CONSTRAINT positive CHECK (n > 0)")
    values: list[bytes | None] = [b"%d" % n for n in range(1, 31)]
    values[17], values[20] = b"-5", None
    session = await land_more(spark, table, values, tmp_path / "dead")

    assert session.marks[-1] == ("orders", 0, 40)
    offsets = sorted(row.offset for row in table.read(spark).select("offset").collect())
    assert offsets == [n for n in range(40) if n not in (27, 30)]
    letters = errors_by_offset(tmp_path / "dead")
    assert sorted(letters) == [27, 30]
    assert all("CHECK constraint positive (n > 0) is violated" in error for error in letters.values())


async def test_record_without_a_required_delta_column_is_a_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "orders")
    columns = "n int NOT NULL, offset bigint, s struct<a: bigint>"
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/orders` ({columns}) USING delta")
    await check_record_without_n_is_a_dead_letter(spark, table, tmp_path / "dead")


async def test_record_without_a_required_iceberg_column_is_a_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    name = f"{ICEBERG_CATALOG}.refusing.orders"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {ICEBERG_CATALOG}.refusing")
    spark.sql(f"CREATE TABLE {name} (n int NOT NULL, offset bigint, s struct<a: bigint>) USING iceberg")
    table = IcebergTable(name, staging=tmp_path / "staging")
    await check_record_without_n_is_a_dead_letter(spark, table, tmp_path / "dead")


async def test_refused_batch_that_is_not_searched_stops_the_sink(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaTable(tmp_path / "orders")
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/orders` (n varchar(2), offset bigint) USING delta")
    plain = lambda frame: frame.selectExpr("cast(value as string) as n", "offset")  # noqa: E731
    dead = FileDeadLetters(tmp_path / "dead")
    async with SparkSink(table, transform=plain, dead_letters=dead, spark=spark) as sink:
        with pytest.raises(LandingError, match=r"\[0, 3\) did not land: .*DELTA_EXCEED_CHAR_VARCHAR_LIMIT"):
            await consume_in(sink, FakeSession(), claim_of([b"ab", b"abc", b"c"]))
