"""Leftovers of an Iceberg table: snapshots staged and never published, files without a snapshot, staged files.

The audit lists leftovers, and removes them one by one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

from sarameya import HandlerError
from sarameya_handlers.spark.iceberg.catalog import TableName
from sarameya_handlers.spark.iceberg.table_state import TableState
from sarameya_handlers.spark.tables.expressions import literal
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import Leftover

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SNAPSHOT = "snapshot "
_MIN_ORPHAN_AGE = 24 * 3600 + 60
"""Seconds. Iceberg does not list younger files as orphans: they may still be committed."""


def leftovers(spark: SparkSession, name: TableName, state: TableState, staging: Staging | None) -> Iterator[Leftover]:
    """Yield snapshots that were never published, and files that no snapshot names."""
    for snapshot, key, number in state.history.unpublished():
        yield Leftover(
            name=f"{_SNAPSHOT}{snapshot.snapshot_id}",
            size_bytes=snapshot.size_bytes,
            changed=snapshot.committed / 1000,
            what=f"rows that were staged as link {number} of {key}, and never published",
        )
    before = time.time() - _MIN_ORPHAN_AGE
    for (location,) in _orphans(spark, name, f"dry_run => true, older_than => timestamp_seconds({before:.0f})"):
        url = urlsplit(location)  # whose size is unknown in an object store
        size, changed = (None if url.netloc else _stat(Path(url.path))) or (0, before)
        yield Leftover(name=location, size_bytes=size, changed=changed, what="a file that no snapshot names")
    if staging is not None:
        yield from staging.leftovers()


def remove(
    spark: SparkSession, name: TableName, state: TableState, staging: Staging | None, leftover: Leftover
) -> None:
    """Remove a leftover.

    Raises:
        HandlerError: The leftover is not one of this table.
    """
    if leftover.name.startswith(_SNAPSHOT):
        _expire(spark, name, state, leftover.name.removeprefix(_SNAPSHOT))
    elif staging is None or not staging.remove(leftover):
        _remove_orphan(spark, name, leftover)


def _expire(spark: SparkSession, name: TableName, state: TableState, snapshot_id: str) -> None:
    """Expire a snapshot, and delete files that no other snapshot names. It cannot be published afterwards."""
    if all(str(snapshot.snapshot_id) != snapshot_id for snapshot, _, _ in state.history.unpublished()):
        if snapshot_id.isdecimal() and int(snapshot_id) not in state.history.snapshots:
            return
        raise HandlerError(f"snapshot {snapshot_id} of {name} is no leftover: it was published, or is not a sink's")
    # `older_than` is before all snapshots: otherwise other old snapshots would expire, too.
    arguments = f"snapshot_ids => array({snapshot_id}), older_than => timestamp_seconds(0)"
    spark.sql(f"CALL {name.procedure('expire_snapshots')}(table => {name.in_catalog}, {arguments})").collect()


def _remove_orphan(spark: SparkSession, name: TableName, leftover: Leftover) -> None:
    """Let Iceberg remove the file: Iceberg checks once more that no snapshot names it."""
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {name.sql}").collect()
    location = next(row[1] for row in described if row[0] == "Location")
    if not _is_below(location, leftover.name):
        raise HandlerError(f"{leftover.name} is no leftover of {name}, whose location is {location}")
    view = f"sarameya_leftover_{uuid4().hex}"
    file = f"{literal(leftover.name)} AS file_path, timestamp_seconds({leftover.changed:.0f}) AS last_modified"
    spark.sql(f"CREATE TEMPORARY VIEW {view} AS SELECT {file}")
    try:
        before = time.time() - _MIN_ORPHAN_AGE
        # An empty location: otherwise Iceberg considers only names that start with the table's location, which has
        # several notations.
        _orphans(
            spark, name, f"file_list_view => '{view}', location => '', older_than => timestamp_seconds({before:.0f})"
        )
    finally:
        spark.catalog.dropTempView(view)


def _is_below(directory: str, file: str) -> bool:
    """Return whether a file's URL is below a directory's. A URL of a local file has several notations."""
    ours, theirs = urlsplit(directory), urlsplit(file)
    return ours.netloc == theirs.netloc and Path(ours.path) in Path(theirs.path).parents


def _orphans(spark: SparkSession, name: TableName, arguments: str) -> list[tuple[str]]:
    # Listed by the table's FileIO: without `prefix_listing` Spark needs a Hadoop file system for the location, which
    # tables of S3FileIO need not have.
    arguments = f"table => {name.in_catalog}, prefix_listing => true, {arguments}"
    call = f"CALL {name.procedure('remove_orphan_files')}({arguments})"
    return [(row[0],) for row in spark.sql(call).collect()]


def _stat(path: Path) -> tuple[int, float] | None:
    """Return a file's size and modification time, if it is on this machine."""
    with suppress(OSError):
        stat = path.stat()
        return stat.st_size, stat.st_mtime
    return None
