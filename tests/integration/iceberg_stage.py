"""Helpers of the tests of Iceberg tables: make links, land them, name tables, expire snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

from sarameya_handlers.landing.links import ChainKey, Kind, Link, Origin
from sarameya_handlers.spark.iceberg.table import IcebergTable
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing, Phase, Shape
from tests.integration.lake_stage import KEY, landing_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def land(
    spark: SparkSession,
    table: IcebergTable,
    *links: Link,
    shape: Shape | None = None,
    days: int = 1,
    checkpoint: Callable[[Phase, Sequence[Landing]], None] = lambda phase, landings: None,
) -> None:
    """Land links together, in one call of the table."""
    landings = [landing_of(table, each, days=days) for each in links]
    try:
        table.land(spark, landings, shape or Shaping(), checkpoint)
    finally:
        for landing in landings:
            if landing.staged:
                landing.staged.path.unlink(missing_ok=True)


_numbers = count(1)


def new_name() -> str:
    """Return a new name for a table. All tests share a catalog."""
    return f"ice.db.t{next(_numbers)}"


def age(spark: SparkSession, name: str, snapshots: int) -> None:
    """Expire all snapshots that are older than the newest `snapshots` of branch main."""
    times = spark.sql(
        f"SELECT unix_millis(committed_at) FROM {name}.snapshots s JOIN {name}.history h "
        "ON s.snapshot_id = h.snapshot_id ORDER BY made_current_at DESC"
    ).collect()
    catalog, _, rest = name.partition(".")
    older_than = f"timestamp_millis({times[snapshots - 1][0]})"
    spark.sql(f"CALL {catalog}.system.expire_snapshots(table => '{rest}', older_than => {older_than})")
