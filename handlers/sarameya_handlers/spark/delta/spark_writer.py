"""Create a Delta table and append to it by Spark: one commit for each attempt."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from sarameya import HandlerError
from sarameya_handlers.spark.delta.checks import TableDetail
from sarameya_handlers.spark.delta.constraints import requirements
from sarameya_handlers.spark.delta.errors import condition_of, is_missing, is_overtaken
from sarameya_handlers.spark.delta.history.commits import CommitMark, app_id, txn_version
from sarameya_handlers.spark.delta.place import Place
from sarameya_handlers.spark.errors import cause_of
from sarameya_handlers.spark.shaping.partitions import (
    directory_rules,
    require_few_partitions,
    require_partition_columns,
    require_utc,
)
from sarameya_handlers.spark.shaping.row_conversion import conform
from sarameya_handlers.spark.shaping.schemas import Widens, compare, never
from sarameya_handlers.spark.tables.columns import Columns
from sarameya_handlers.spark.tables.evaluation import Evaluate, compute_all, with_checks
from sarameya_handlers.spark.tables.staged_records import require_readable, with_staged_file
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import Landing, Layout, Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
    from pyspark.sql.types import StructType

logger = logging.getLogger("sarameya.spark")

_TOO_OLD = ("DELTA_VERSION_NOT_FOUND", "DELTA_FILE_NOT_FOUND", "DELTA_FILE_NOT_FOUND_DETAILED")


@attrs.frozen(slots=True)
class SparkWriter:
    """Writes to one table through Spark."""

    place: Place
    layout: Layout

    def rows(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """Return the rows of the table, now or as of a version.

        Raises:
            HandlerError: The table does not keep that version.
        """
        read = spark.read.format("delta")
        if version is None:
            return self._read(read)
        try:
            frame = self._read(read.option("versionAsOf", version))
            _ = frame.schema  # with Spark Connect, this sends the first request to the server
        except Exception as error:
            if condition_of(error) in _TOO_OLD:
                raise HandlerError(f"{self.place} has no version {version}: {cause_of(error)}") from error
            raise
        return frame

    def _read(self, read: DataFrameReader) -> DataFrame:
        return read.load(self.place.location) if self.place.location else read.table(self.place.table)

    def parquet_columns(self, spark: SparkSession, root: Path | None) -> list[str] | None:
        """Return the columns of a Parquet file in the table's directory; None if no file there has rows.

        Args:
            spark: Used if `root` is None. Spark logs an error with its stack if there is no such directory.
            root: The directory, if it is on this machine and Spark sees the same one.
        """
        return _local_columns(root) if root is not None else self._columns_by_spark(spark)

    def _columns_by_spark(self, spark: SparkSession) -> list[str] | None:
        try:
            return spark.read.parquet(self.place.location).columns
        except Exception as error:
            if is_missing(error) or condition_of(error) == "UNABLE_TO_INFER_SCHEMA":
                return None
            raise

    def create(self, spark: SparkSession, landing: Landing, shape: Shape, staging: Staging) -> None:
        """Create the table with the columns of these rows, unless another process has just done so."""
        with with_staged_file(landing, staging) as staged:
            frame = shape.frame(spark, staged)
            require_partition_columns(frame, self.layout.partition_by)
            # Not CREATE TABLE: it treats a directory with any file in it as an existing table.
            writer = frame.limit(0).write.format("delta").mode("ignore").partitionBy(*self.layout.partition_by)
            try:
                _save(writer, self.place)
            except Exception as error:
                if not is_overtaken(error):
                    raise
                logger.info("another process has created %s meanwhile", self.place)

    def columns(self, spark: SparkSession, landing: Landing, shape: Shape, staging: Staging) -> Columns:
        """Return the columns that a table of these rows would be created with."""
        with with_staged_file(landing, staging) as staged:
            found: Columns = shape.frame(spark, staged).schema.jsonValue()
            return found

    def append(
        self, spark: SparkSession, landing: Landing, shape: Shape, mark: CommitMark, detail: TableDetail
    ) -> None:
        """Make one commit with the attempt's rows and link. A return does not prove that the commit is in the table."""
        table, partitioned_by = self.rows(spark), detail.partition_columns
        if landing.staged is None:
            frame = table.limit(0)
        else:
            require_readable(spark, landing)  # here, since the job that reads the records is the commit
            frame = self.conform(shape.frame(spark, landing), table.schema, _widens(detail))
            if partitioned_by:
                require_utc(spark, frame, partitioned_by)
                rules = list(directory_rules(frame.schema, detail.named_directories))
                require_few_partitions(frame, partitioned_by, self.layout.max_partitions, rules)
        # One task: one file, or one for each table partition. A batch is no larger than a file should be.
        writer = frame.coalesce(1).write.format("delta").mode("append").partitionBy(*partitioned_by)
        options = {
            "txnAppId": app_id(landing.link.key),
            "txnVersion": str(txn_version(mark.term, landing.link.number)),
            "userMetadata": mark.to_json(),
            # Always set: a setting of the session could evolve schemas that must not change.
            "mergeSchema": str(self.layout.evolve_schema).lower(),
        }
        try:
            _save(writer.options(**options), self.place)
        except Exception as error:
            if not is_overtaken(error):
                raise
            logger.info("%s: another commit came first (%s)", landing, condition_of(error))

    def evaluator(self, spark: SparkSession, detail: TableDetail) -> Evaluate:
        """Return a function that converts and checks rows as `append` does, but makes no commit."""
        schema = self.rows(spark).schema
        required = [*requirements(schema, detail.properties), *directory_rules(schema, detail.named_directories)]
        return lambda frame: compute_all(with_checks(self.conform(frame, schema, _widens(detail)), required))

    def conform(self, frame: DataFrame, table: StructType, widens: Widens = never) -> DataFrame:
        """Convert rows to the table's columns. Raises SchemaMismatchError."""
        evolves = self.layout.evolve_schema
        compare(frame.schema, table).require(str(self.place), evolve_schema=evolves, widens=widens)
        return conform(frame, table)


def _widens(detail: TableDetail) -> Widens:
    """Return whether Spark widens a column in this way when it appends rows.

    Source: Delta Lake's documentation, "Delta type widening", "Automatic type widening".
    """
    if detail.properties.get("delta.enableTypeWidening", "").lower() != "true":
        return never
    return lambda change: not (change.table.endswith("int") and change.rows.startswith(("double", "decimal")))


def _local_columns(root: Path) -> list[str] | None:
    """Return the columns of a Parquet file with rows that readers of this directory see; None if there is none.

    Skips a file that another process is still writing: it has no footer yet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for directory, below, files in os.walk(root):
        below[:] = [name for name in below if not name.startswith(("_", "."))]
        for name in sorted(files):
            if name.endswith(".parquet") and not name.startswith(("_", ".")):
                with suppress(pa.ArrowInvalid, OSError), pq.ParquetFile(Path(directory, name)) as file:
                    if file.metadata.num_rows:
                        return list(file.schema_arrow.names)
    return None


def _save(writer: DataFrameWriter, place: Place) -> None:
    if place.location:
        writer.save(place.location)
    else:
        writer.saveAsTable(place.table)
