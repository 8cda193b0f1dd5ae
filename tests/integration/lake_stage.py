"""Helpers of the tests of Delta and Iceberg tables: Spark sessions, staged records, reads of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sarameya.arrow import kafka_schema
from sarameya_handlers.landing.links import ChainKey, Kind, Link
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing, Table
from tests.integration.lakes import lake_properties
from tests.integration.warm_spark import warm_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY = ChainKey("sink", "orders", 0)
OTHER = ChainKey("sink", "orders", 1)
DAY = 24 * 3600


@contextmanager
def classic(directory: Path, *, iceberg: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    with warm_spark(lake_properties(directory, iceberg=iceberg)) as session:
        yield session


EITHER = ["classic", pytest.param("connect", marks=pytest.mark.exhaustive)]
"""The parameters of a fixture that calls `either`."""


@contextmanager
def either(request: pytest.FixtureRequest, *, compiles: bool = False) -> Iterator[SparkSession]:
    """Yield the session that a fixture's parameter selects: "classic", or else a session of the shared Connect server.

    Args:
        request: the request of the fixture.
        compiles: whether Spark compiles expressions as it does for users. `lake_properties` switches that off.
    """
    with ExitStack() as stack:
        if request.param == "classic":
            directory = request.getfixturevalue("tmp_path_factory").mktemp("lake")
            session = stack.enter_context(classic(directory))
        else:
            session = stack.enter_context(request.getfixturevalue("lake_server").session())
        if compiles:
            session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
        yield session


def landing_of(table: Table, of: Link, *, days: int = 1) -> Landing:
    """Stage the records of a link, and return its landing. The value of each record is the attempt's id.

    Args:
        table: the table to stage for.
        of: the link.
        days: the number of days over which the timestamps are spread; with one day they are a second apart.
    """
    count = of.to_offset - of.from_offset
    if of.kind is not Kind.RECORDS or not count:
        return Landing(link=of, staged=None)
    start = datetime(2026, 11, 22, tzinfo=UTC).timestamp()
    columns = {
        "key": [None] * count,
        "value": [of.attempt.encode()] * count,
        "topic": [of.key.topic] * count,
        "partition": [of.key.partition] * count,
        "offset": list(range(of.from_offset, of.to_offset)),
        "timestamp": [datetime.fromtimestamp(start + n % days * DAY + n, UTC) for n in range(count)],
        "timestampType": [0] * count,
        "headers": [None] * count,
    }
    staged = table.staging.directory / f"{of.attempt}.parquet"
    pq.write_table(pa.table(columns, schema=kafka_schema()), staged)
    return Landing(link=of, staged=StagedFile(staged), records=count)


def found(spark: SparkSession, table: Table, key: ChainKey = KEY) -> list[tuple[int, str]]:
    """Return number and attempt of each link that the table has."""
    return [(link.number, link.attempt) for link in table.links(spark, key, 1)]


def rows(frame: DataFrame) -> list[tuple[int, int, str]]:
    """Return partition, offset and attempt of each row."""
    collected = frame.selectExpr("partition", "offset", "cast(value AS string)").collect()
    return sorted((row[0], row[1], row[2]) for row in collected)


def rows_of(*links: Link) -> list[tuple[int, int, str]]:
    """Return the rows that these links must have, as `rows` returns them."""
    return sorted(
        (link.key.partition, offset, link.attempt)
        for link in links
        for offset in range(link.from_offset, link.to_offset)
    )
