"""The blocking part of a flush, in a worker thread: stage records in files, and land them in the table.

pyarrow writes the staged files, and Spark reads them. `createDataFrame(pyarrow.Table)` would copy the records into the
driver's heap and into its tasks, where two batches of 60 MB at once kill a driver of Spark's default size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.table import Landing, PendingLink, Phase, Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEFTOVER_AGE = 24 * 3600.0
"""Seconds after which an unchanged staged file counts as left by a killed member: no flush takes so long."""

OnPhase = Callable[[Phase, Sequence[Landing]], None]
"""Called when attempts reach a phase, in the thread that lands them. For tests that stop or kill exactly there."""


def open_table(spark: SparkSession, check: Callable[[], None], *, table: Table, now: float) -> None:
    """Open the table, and remove staged files that killed members left more than `LEFTOVER_AGE` ago.

    Args:
        spark: The session.
        check: Not used. The engine passes it to each function.
        table: The table.
        now: Seconds since 1970.

    Raises:
        HandlerError: Nothing can land in the table.
    """
    table.open(spark)
    table.staging.remove_old(now - LEFTOVER_AGE)


def flush(
    spark: SparkSession,
    check: Callable[[], None],
    *,
    pending: Sequence[PendingLink],
    table: Table,
    shape: Shape,
    on_phase: OnPhase,
) -> None:
    """Try to append these links, each of another chain. If it raises, `read_links` returns which were appended."""
    checkpoint = partial(_checkpoint, check, on_phase)
    with ExitStack() as stack:
        landings = [_stage(link, table, shape, stack) for link in pending]
        checkpoint(Phase.STAGED, landings)
        table.land(spark, landings, shape, checkpoint)
        checkpoint(Phase.LINKED, landings)


def read_links(
    spark: SparkSession, check: Callable[[], None], *, table: Table, since: Mapping[ChainKey, int]
) -> dict[ChainKey, Sequence[Link]]:
    """Return the table's links of each chain from the given number on."""
    links = {}
    for key, number in since.items():
        check()
        links[key] = table.links(spark, key, number)
    return links


def _checkpoint(check: Callable[[], None], on_phase: OnPhase, phase: Phase, landings: Sequence[Landing]) -> None:
    on_phase(phase, landings)
    check()


def _stage(pending: PendingLink, table: Table, shape: Shape, stack: ExitStack) -> Landing:
    if pending.records is None:
        return Landing(link=pending.link, staged=None)
    file = table.staging.stage(pending.link.attempt, pending.records, is_final=table.adopts(shape))
    return Landing(link=pending.link, staged=stack.enter_context(file), records=pending.records.num_rows)
