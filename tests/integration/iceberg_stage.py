"""What tests of Iceberg tables share: a Spark to land with, links, staged records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from sarameya.arrow import kafka_schema
from sarameya_handlers.landing.links import ChainKey, Kind, Link, Origin
from sarameya_handlers.spark.engines import jvm
from sarameya_handlers.spark.iceberg.table import IcebergTable
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing, Phase, Shape
from tests.integration.connect_server import ConnectServer
from tests.integration.lakes import lake_options, lake_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY = ChainKey("sink", "orders", 0)
OTHER = ChainKey("sink", "orders", 1)
DAY = 24 * 3600


@contextmanager
def classic(directory: Path, *, iceberg: str) -> Iterator[SparkSession]:
    running = jvm.start(lake_options(directory, iceberg=iceberg))
    try:
        yield running.session
    finally:
        running.stop()


@contextmanager
def connected(directory: Path, *, iceberg: str) -> Iterator[SparkSession]:
    with ConnectServer(directory, lake_properties(directory, iceberg=iceberg)) as server, server.session() as session:
        yield session  # type: ignore[misc]  # the same methods


def link(
    number: int,
    from_offset: int,
    to_offset: int,
    *,
    key: ChainKey = KEY,
    attempt: str | None = None,
    kind: Kind = Kind.RECORDS,
) -> Link:
    return Link(
        key=key,
        number=number,
        from_offset=from_offset,
        to_offset=to_offset,
        attempt=attempt or uuid4().hex,
        origin=Origin(group="landing"),
        kind=kind,
        reason="gone" if kind is Kind.GAP else "",
    )


def landing_of(table: IcebergTable, of: Link, *, days: int = 1) -> Landing:
    """Its records, staged: a second apart, or spread over so many days. Their values are the attempt's name."""
    count = of.to_offset - of.from_offset
    if of.kind is not Kind.RECORDS or not count:
        return Landing(link=of, staged=None)
    start = datetime(2026, 11, 22, tzinfo=UTC).timestamp()
    times = [datetime.fromtimestamp(start + n % days * DAY + n, UTC) for n in range(count)]
    columns = {
        "key": [None] * count,
        "value": [of.attempt.encode()] * count,
        "topic": [of.key.topic] * count,
        "partition": [of.key.partition] * count,
        "offset": list(range(of.from_offset, of.to_offset)),
        "timestamp": times,
        "timestampType": [0] * count,
        "headers": [None] * count,
    }
    staged = table.staging / f"{of.attempt}.parquet"
    pq.write_table(pa.table(columns, schema=kafka_schema()), staged)
    return Landing(link=of, staged=staged, records=count)


def land(
    spark: SparkSession,
    table: IcebergTable,
    *links: Link,
    shape: Shape | None = None,
    days: int = 1,
    checkpoint: Callable[[Phase, Sequence[Landing]], None] = lambda phase, landings: None,
) -> None:
    landings = [landing_of(table, one, days=days) for one in links]
    try:
        table.land(spark, landings, shape or Shaping(), checkpoint)
    finally:
        for landing in landings:
            if landing.staged:
                landing.staged.unlink(missing_ok=True)


def found(spark: SparkSession, table: IcebergTable, key: ChainKey = KEY) -> list[tuple[int, str]]:
    return [(one.number, one.attempt) for one in table.links(spark, key, 1)]


def rows(frame: DataFrame) -> list[tuple[int, int, str]]:
    """Partition, offset, and whose attempt each row is."""
    told = frame.selectExpr("partition", "offset", "cast(value AS string)").collect()
    return sorted((row[0], row[1], row[2]) for row in told)


def rows_of(*links: Link) -> list[tuple[int, int, str]]:
    return sorted((one.key.partition, at, one.attempt) for one in links for at in range(one.from_offset, one.to_offset))


@attrs.define
class Names:
    """A new table's name each time."""

    prefix: str = "ice.db"
    count: int = 0

    def __call__(self) -> str:
        self.count += 1
        return f"{self.prefix}.t{self.count}"


def age(spark: SparkSession, name: str, snapshots: int) -> None:
    """Expire all but the newest so many of main, and what else is older than these."""
    told = spark.sql(
        f"SELECT unix_millis(committed_at) FROM {name}.snapshots s JOIN {name}.history h "
        "ON s.snapshot_id = h.snapshot_id ORDER BY made_current_at DESC"
    ).collect()
    catalog, _, rest = name.partition(".")
    older_than = f"timestamp_millis({told[snapshots - 1][0]})"
    spark.sql(f"CALL {catalog}.system.expire_snapshots(table => '{rest}', older_than => {older_than})")
