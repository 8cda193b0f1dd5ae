"""Helpers of the tests of Delta tables: make links, and land them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from sarameya_handlers.landing.links import ChainKey, Kind, Link, Origin
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing, Phase, Shape
from tests.integration.lake_stage import KEY, landing_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def link(number: int, from_offset: int, to_offset: int, *, key: ChainKey = KEY, kind: Kind = Kind.RECORDS) -> Link:
    return Link(
        key=key,
        number=number,
        from_offset=from_offset,
        to_offset=to_offset,
        attempt=uuid4().hex,
        origin=Origin(group="landing"),
        kind=kind,
        reason="gone" if kind is Kind.GAP else "",
        rows=-1 if kind is Kind.RECORDS else 0,
    )


def land(
    spark: SparkSession,
    table: DeltaTable,
    *links: Link,
    shape: Shape | None = None,
    days: int = 1,
    checkpoint: Callable[[Phase, Sequence[Landing]], None] = lambda phase, landings: None,
) -> None:
    """Land links one after the other. The table's head is read before each."""
    for each in links:
        table.heads(spark, [each.key])
        attempt(spark, table, each, shape=shape, days=days, checkpoint=checkpoint)


def attempt(
    spark: SparkSession,
    table: DeltaTable,
    of: Link,
    *,
    shape: Shape | None = None,
    days: int = 1,
    checkpoint: Callable[[Phase, Sequence[Landing]], None] = lambda phase, landings: None,
) -> None:
    """Attempt a link after the chain that the table object has read last."""
    landing = landing_of(table, of, days=days)
    try:
        table.land(spark, [landing], shape or Shaping(), checkpoint)
    finally:
        if landing.staged:
            landing.staged.path.unlink(missing_ok=True)
