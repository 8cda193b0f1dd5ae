"""Landing in an Iceberg table: each link's rows are staged as a snapshot that nobody sees, and published in their turn.

The session's `spark.wap.id` is what makes an append a staged one; it is ours while the call lasts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.iceberg.catalog import CREATED_WITH, WAP_ID, TableName
from sarameya_handlers.spark.iceberg.history import LINK_PROPERTY, wap_id
from sarameya_handlers.spark.iceberg.look import Look, exists, refresh
from sarameya_handlers.spark.iceberg.marks import Mark, overtaken
from sarameya_handlers.spark.iceberg.schema import create_table, missing_columns, partition_values
from sarameya_handlers.spark.shaping.conforming import conform
from sarameya_handlers.spark.shaping.expressions import literal, quoted
from sarameya_handlers.spark.shaping.partitions import require_few_partitions
from sarameya_handlers.spark.shaping.schemas import compare
from sarameya_handlers.spark.tables.evaluating import Evaluate, checked, not_null, to_nowhere
from sarameya_handlers.spark.tables.settings import changed
from sarameya_handlers.spark.tables.table import Landing, Layout, Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_EVOLUTIONS = 3
"""How often columns are added for one landing: others may be adding theirs."""


def stage(spark: SparkSession, name: TableName, link: Link, frame: DataFrame) -> None:
    """Write the rows, and commit a snapshot with them that no branch leads to."""
    with changed(spark, {WAP_ID: wap_id(link.key, link.number)}):
        frame.writeTo(name.sql).option(f"snapshot-property.{LINK_PROPERTY}", link.to_json()).append()


def fitted(
    spark: SparkSession, name: TableName, frame: DataFrame, partitioned_by: Sequence[str], layout: Layout
) -> DataFrame:
    """These rows as the table wants them, which may get columns for it. Raises ShapeError where they do not go
    together, or go into too many partitions."""
    for _ in range(_EVOLUTIONS):
        table = spark.table(name.sql).schema
        compare(frame.schema, table).require(str(name), evolve_schema=layout.evolve_schema)
        missing = list(missing_columns(frame.schema, table))
        if not missing:
            break
        _add_columns(spark, name, missing)
    else:
        raise LandingError(f"{name}: columns are being added to it by others, again and again")
    frame = conform(frame, table)
    if not partitioned_by:
        # One task: one file. A landing is no larger than a file should be.
        return frame.coalesce(1)
    values = zip(partition_values(name, partitioned_by), partitioned_by, strict=True)
    parts = frame.selectExpr(*(f"{value} AS {quoted(part)}" for value, part in values))
    require_few_partitions(parts, partitioned_by, layout.max_partitions)
    return frame


def evaluator(spark: SparkSession, name: TableName, layout: Layout) -> Evaluate:
    """Of rows that are fitted and required as by an append, but for columns that it would add."""
    table = spark.table(name.sql).schema
    required = list(not_null(table, spares_null_structs=True))

    def evaluate(frame: DataFrame) -> None:
        compare(frame.schema, table).require(str(name), evolve_schema=layout.evolve_schema)
        to_nowhere(checked(conform(frame, table), required))

    return evaluate


def _add_columns(spark: SparkSession, name: TableName, missing: Sequence[tuple[str, str]]) -> None:
    from pyspark.errors import AnalysisException

    # Somebody else may have added them meanwhile: what is missing then is looked up again.
    with suppress(AnalysisException):
        columns = ", ".join(f"{path} {kind}" for path, kind in missing)
        spark.sql(f"ALTER TABLE {name.sql} ADD COLUMNS ({columns})")
    refresh(spark, name)


def create(spark: SparkSession, name: TableName, columns: StructType, layout: Layout) -> None:
    """Create the table, unless somebody else has just done so."""
    try:
        if not spark.catalog.databaseExists(name.namespace):
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.namespace}")
        spark.sql(create_table(name, columns, layout.partition_by, CREATED_WITH))
    except Exception:
        # Catalogs have many words for it.
        if not exists(spark, name):
            raise


def columns_without_rows(spark: SparkSession, landing: Landing, shape: Shape, staging: Path) -> StructType:
    """The columns that rows of a sink would have, of one whose first link brings none."""
    import pyarrow.parquet as pq

    from sarameya.arrow import kafka_schema

    path = staging / f"{landing.link.attempt}.parquet"
    try:
        pq.write_table(kafka_schema().empty_table(), path)
        return shape.frame(spark, attrs.evolve(landing, staged=path)).schema
    finally:
        path.unlink(missing_ok=True)


def publish(
    spark: SparkSession,
    name: TableName,
    look: Look,
    landings: Sequence[Landing],
    terms: Mapping[ChainKey, str],
    *,
    plain: bool,
) -> list[Exception]:
    """Publish those of the staged links whose turn it is; what went wrong with each of the others.

    `terms` are what this owner marks these chains with for as long as it has them, and nobody else does.
    """
    failures: list[Exception] = []
    turns: dict[int, Link] = {}
    for landing in landings:
        try:
            if (snapshot_id := _turn(look, landing, plain=plain)) is not None:
                turns[snapshot_id] = landing.link
        except Exception as error:  # noqa: BLE001 - it is the one landing's, and told
            failures.append(error)
    begun = [Mark.begun(link.key, link.number, terms[link.key]) for link in turns.values()]
    mark_chains(spark, name, look, [mark for mark in begun if not _is_ours(look, mark)])
    for snapshot_id in turns:
        try:
            arguments = f"table => {name.in_catalog}, snapshot_id => {snapshot_id}"
            spark.sql(f"CALL {name.procedure('cherrypick_snapshot')}({arguments})").collect()
        except Exception as error:  # noqa: BLE001 - as above; somebody else's link, mostly
            failures.append(error)
    return failures


def _turn(look: Look, landing: Landing, *, plain: bool) -> int | None:
    """The snapshot that was staged for this landing, if it is its turn; None if the link is somebody else's already.

    Looked at after it was staged: `iceberg_history.py` says why.
    """
    link = landing.link
    number = look.number(link.key)
    snapshot = look.history.staged(link)
    if snapshot is None:
        raise LandingError(f"{link}: what was staged for it is not in the table any more")
    if plain and landing.staged and snapshot.rows != landing.records:
        raise LandingError(f"{link}: {snapshot.rows} rows were written of {landing.records} records")
    if number < link.number - 1:
        raise LandingError(f"{link}: the table has no link {link.number - 1}, only {number}: was it restored?")
    return snapshot.snapshot_id if number == link.number - 1 else None


def _is_ours(look: Look, mark: Mark) -> bool:
    """Whether the mark of the chain that counts was put in the same term."""
    marks = look.marks.get(mark.key)
    return marks is not None and marks[-1].value == mark.value


def mark_chains(spark: SparkSession, name: TableName, look: Look, marks: Sequence[Mark]) -> None:
    """Put these marks, and remove what they have overtaken of those that were looked at."""
    set_properties(spark, name, {mark.name: mark.value for mark in marks})
    if gone := overtaken(look.marks, marks):
        names = ", ".join(literal(mark.name) for mark in gone)
        spark.sql(f"ALTER TABLE {name.sql} UNSET TBLPROPERTIES IF EXISTS ({names})")


def set_properties(spark: SparkSession, name: TableName, properties: Mapping[str, str]) -> None:
    if properties:
        said = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
        spark.sql(f"ALTER TABLE {name.sql} SET TBLPROPERTIES ({said})")
