"""The records of an attempt, from its staged file: as Spark reads them, and as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from sarameya_handlers.spark.errors import LandingError, text_of
from sarameya_handlers.spark.tables.row_count import RowCount
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import Landing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

KAFKA_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp_ltz, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
"""`sarameya.arrow.kafka_schema()` as Spark's DDL: the columns of Spark's own Kafka source."""
_READ_OPTIONS = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    # The file does not record the calendar of its timestamps: otherwise the session's settings would decide.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""With these options, a file that cannot be read completely is an error, even if the session's settings differ."""


def staged_frame(spark: SparkSession, landing: Landing) -> DataFrame:
    """Return the records of a staged file. They are counted when a job reads them (`Landing.reads`).

    Args:
        spark: The session that reads the file.
        landing: An attempt that has records.

    Returns:
        A frame with `KAFKA_COLUMNS`.

    Raises:
        LandingError: Spark does not see the file.
    """
    try:
        frame = _read(spark, landing)
        is_seen = bool(frame.inputFiles())
    except Exception as error:
        if "PATH_NOT_FOUND" not in (text_of(error) or ""):
            raise
        is_seen = False
    if not is_seen:
        raise LandingError(f"Spark does not see the staged file {landing.staged}: can it read it there?")
    count = RowCount.of(frame)
    landing.reads.append(count)
    return count.frame


@contextmanager
def with_staged_file(landing: Landing, staging: Staging) -> Iterator[Landing]:
    """Provide the attempt with a staged file. One without records gets an empty file, which has the columns."""
    if landing.staged is not None:
        yield landing
        return
    from sarameya.arrow import kafka_schema

    with staging.stage(landing.link.attempt, kafka_schema().empty_table()) as staged:
        yield attrs.evolve(landing, staged=staged)


def require_all_read(spark: SparkSession, landings: Iterable[Landing]) -> None:
    """Check that Spark's jobs have read each record of these attempts, before any of them lands.

    A transform may need only some records (`limit 10`), or read them twice. So a different count proves nothing: then
    another job counts all records.

    Args:
        spark: The session in which the jobs ran.
        landings: Attempts whose rows were computed.

    Raises:
        LandingError: Spark reads fewer or more records than were staged.
    """
    for landing in landings:
        if landing.staged is not None and not (landing.reads and landing.reads[-1].rows == landing.records):
            require_readable(spark, landing)


def require_readable(spark: SparkSession, landing: Landing) -> None:
    """Check by a separate job that Spark reads each record that was staged.

    Needed if the job that reads the records also commits, or is a user's: then its count would be too late.

    Args:
        spark: A session.
        landing: The attempt. Nothing is checked for an attempt without records.

    Raises:
        LandingError: Spark reads fewer or more records than were staged.
    """
    if landing.staged is None:
        return
    # All columns: otherwise Spark would take the count from the footer, and read no record.
    frame = _read(spark, landing)
    row = frame.selectExpr("count(1)", *(f"count(`{name}`)" for name in frame.columns)).first()
    assert row is not None, "an aggregate is one row"
    if row[0] != landing.records:
        raise LandingError(
            f"{landing}: Spark reads {row[0]} of {landing.records} records that were staged in {landing.staged}, "
            "and nothing was landed: do all of Spark's machines see the same file there, and does an extension of "
            "Spark (spark.sql.extensions) leave rows out?"
        )


def _read(spark: SparkSession, landing: Landing) -> DataFrame:
    assert landing.staged is not None, "only an attempt with records has a staged file"
    return spark.read.schema(KAFKA_COLUMNS).options(**_READ_OPTIONS).parquet(landing.staged.spark_url())


def staged_columns(landing: Landing, columns: Sequence[str]) -> pa.Table:
    """Read some columns of an attempt's records without Spark."""
    import pyarrow.parquet as pq

    assert landing.staged is not None, "only an attempt with records has a staged file"
    return pq.read_table(landing.staged.path, columns=list(columns))
