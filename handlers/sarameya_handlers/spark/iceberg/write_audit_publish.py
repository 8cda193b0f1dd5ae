"""Write to an Iceberg table: stage each link's rows as an invisible snapshot, then publish it.

If the session's `spark.wap.id` is set, Iceberg stages an append. It is set only during the append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.errors import LandingError, cause_of
from sarameya_handlers.spark.iceberg.catalog import CREATED_WITH, WAP_ID, TableName
from sarameya_handlers.spark.iceberg.history import LINK_PROPERTY, wap_id
from sarameya_handlers.spark.iceberg.marks import ChainMark, superseded
from sarameya_handlers.spark.iceberg.schema import (
    create_table,
    missing_columns,
    partition_values,
    widens,
    wider_columns,
)
from sarameya_handlers.spark.iceberg.table_state import TableState, exists, refresh
from sarameya_handlers.spark.shaping.partitions import require_few_partitions
from sarameya_handlers.spark.shaping.row_conversion import conform
from sarameya_handlers.spark.shaping.schemas import compare
from sarameya_handlers.spark.tables.evaluation import Evaluate, compute_all, not_null, with_checks
from sarameya_handlers.spark.tables.expressions import literal, quoted
from sarameya_handlers.spark.tables.settings import temporary_settings
from sarameya_handlers.spark.tables.table import Landing, Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_EVOLUTIONS = 3
"""Maximum number of attempts to change columns for one link: other members may change them at the same time."""


def stage(spark: SparkSession, name: TableName, link: Link, frame: DataFrame) -> None:
    """Write the rows, and commit them as a snapshot that is in no branch."""
    with temporary_settings(spark, {WAP_ID: wap_id(link.key, link.number)}):
        frame.writeTo(name.sql).option(f"snapshot-property.{LINK_PROPERTY}", link.to_json()).append()


def conform_rows(
    spark: SparkSession, name: TableName, frame: DataFrame, partitioned_by: Sequence[str], layout: Layout
) -> DataFrame:
    """Convert rows to the table's columns. May add columns to the table, and widen some.

    Raises:
        ShapeError: The columns do not match, or the rows fall into too many partitions.
        LandingError: Other members keep changing columns.
    """
    refused: Exception | None = None
    for _ in range(_EVOLUTIONS):
        table = spark.table(name.sql).schema
        compare(frame.schema, table).require(str(name), evolve_schema=layout.evolve_schema, widens=widens)
        missing, wider = list(missing_columns(frame.schema, table)), list(wider_columns(frame.schema, table))
        if not missing and not wider:
            break
        refused = _evolve(spark, name, missing, wider)
    else:
        cause = cause_of(refused) if refused else "others have changed some meanwhile"
        raise LandingError(f"{name}: {_EVOLUTIONS} attempts to change its columns failed: {cause}") from refused
    frame = conform(frame, table)
    if not partitioned_by:
        # One task: one file. A batch is no larger than a file should be.
        return frame.coalesce(1)
    values = zip(partition_values(name, partitioned_by), partitioned_by, strict=True)
    parts = frame.selectExpr(*(f"{value} AS {quoted(part)}" for value, part in values))
    require_few_partitions(parts, partitioned_by, layout.max_partitions)
    return frame


def evaluator(spark: SparkSession, name: TableName, layout: Layout) -> Evaluate:
    """Return a function that converts and checks rows as an append does, but writes nothing and changes no columns."""
    table = spark.table(name.sql).schema
    required = list(not_null(table, spares_null_structs=True))

    def evaluate(frame: DataFrame) -> None:
        compare(frame.schema, table).require(str(name), evolve_schema=layout.evolve_schema, widens=widens)
        compute_all(with_checks(conform(frame, table), required))

    return evaluate


def _evolve(
    spark: SparkSession, name: TableName, missing: Sequence[tuple[str, str]], wider: Sequence[tuple[str, str]]
) -> Exception | None:
    """Add columns to the table, and widen some: quoted path and type of each. Return the last change's error, if any.

    Another member may have made a change meanwhile, and each catalog has its own type of error for that. The next
    attempt checks which changes are still needed.
    """
    refused = None
    changes = [f"ALTER COLUMN {path} TYPE {kind}" for path, kind in wider]
    if missing:
        changes.append(f"ADD COLUMNS ({', '.join(f'{path} {kind}' for path, kind in missing)})")
    for change in changes:
        try:
            spark.sql(f"ALTER TABLE {name.sql} {change}")
        except Exception as error:  # noqa: BLE001 - see above
            refused = error
    refresh(spark, name)
    return refused


def create(spark: SparkSession, name: TableName, columns: StructType, layout: Layout) -> None:
    """Create the table, unless another process has just done so."""
    try:
        if not spark.catalog.databaseExists(name.namespace):
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.namespace}")
        spark.sql(create_table(name, columns, layout.partition_by, CREATED_WITH))
    except Exception:
        # Each catalog has its own type of error for a table that exists.
        if not exists(spark, name):
            raise


def publish(
    spark: SparkSession,
    name: TableName,
    state: TableState,
    landings: Sequence[Landing],
    terms: Mapping[ChainKey, str],
    *,
    plain: bool,
) -> list[Exception]:
    """Publish the staged links that are next in their chains. Return the errors of attempts that failed.

    Args:
        spark: The session.
        name: The table's name.
        state: The table's state, read after the links were staged.
        landings: The attempts.
        terms: This owner's term for each chain, as in marks.py. Unique to the owner.
        plain: True if the rows are unchanged records.
    """
    failures: list[Exception] = []
    ready: dict[int, Link] = {}
    for landing in landings:
        try:
            if (snapshot_id := _next_snapshot(state, landing, plain=plain)) is not None:
                ready[snapshot_id] = landing.link
        except Exception as error:  # noqa: BLE001 - concerns this attempt only, and is returned
            failures.append(error)
    begun = [ChainMark.begun(link.key, link.number, terms[link.key]) for link in ready.values()]
    mark_chains(spark, name, state, [mark for mark in begun if not _is_ours(state, mark)])
    for snapshot_id in ready:
        try:
            arguments = f"table => {name.in_catalog}, snapshot_id => {snapshot_id}"
            spark.sql(f"CALL {name.procedure('cherrypick_snapshot')}({arguments})").collect()
        except Exception as error:  # noqa: BLE001 - as above; usually another owner's link
            failures.append(error)
    return failures


def _next_snapshot(state: TableState, landing: Landing, *, plain: bool) -> int | None:
    """Return the snapshot staged for this attempt, if the link is next; None if another owner has appended it.

    `state` must be read after the snapshot was staged; history.py has the reason.

    Raises:
        LandingError: The snapshot no longer exists, lacks rows, or the chain lacks the link before it.
    """
    link = landing.link
    number = state.number(link.key)
    snapshot = state.history.staged(link)
    if snapshot is None:
        raise LandingError(f"{link}: its staged snapshot is no longer in the table")
    if plain and landing.staged and snapshot.rows != landing.records:
        raise LandingError(f"{link}: {snapshot.rows} rows were written of {landing.records} records")
    if number < link.number - 1:
        raise LandingError(f"{link}: the table has no link {link.number - 1}, only {number}: was it restored?")
    return snapshot.snapshot_id if number == link.number - 1 else None


def _is_ours(state: TableState, mark: ChainMark) -> bool:
    """Return whether the chain's last mark was set in the same term."""
    marks = state.marks.get(mark.key)
    return marks is not None and marks[-1].value == mark.value


def mark_chains(spark: SparkSession, name: TableName, state: TableState, marks: Sequence[ChainMark]) -> None:
    """Set these marks, and remove those that they make obsolete."""
    set_properties(spark, name, {mark.name: mark.value for mark in marks})
    if obsolete := superseded(state.marks, marks):
        names = ", ".join(literal(mark.name) for mark in obsolete)
        spark.sql(f"ALTER TABLE {name.sql} UNSET TBLPROPERTIES IF EXISTS ({names})")


def set_properties(spark: SparkSession, name: TableName, properties: Mapping[str, str]) -> None:
    """Set table properties. Do nothing if there are none: an ALTER TABLE is a commit."""
    if properties:
        assignments = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
        spark.sql(f"ALTER TABLE {name.sql} SET TBLPROPERTIES ({assignments})")
