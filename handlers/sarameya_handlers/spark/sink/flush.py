"""The blocking part of a flush, in a worker thread: stage records in files, and land them in the table.

pyarrow writes the staged files, and Spark reads them. `createDataFrame(pyarrow.Table)` would copy the records into the
driver's heap and into its tasks, where two batches of 60 MB at once kill a driver of Spark's default size.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sarameya_handlers.landing.files import TEMPORARY
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.table import Landing, PendingLink, Phase, Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

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
    for path in table.staging.iterdir():
        # Another member may be removing it, too, or this user may not remove it.
        with suppress(OSError):
            is_ours = path.suffix == ".parquet" or path.name.startswith(TEMPORARY)
            if is_ours and path.is_file() and path.stat().st_mtime < now - LEFTOVER_AGE:
                logger.info("removing %s, which a flush that never ended has left", path)
                path.unlink()


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
    staged: list[Path] = []
    try:
        landings = [_stage(link, table, shape, staged) for link in pending]
        checkpoint(Phase.STAGED, landings)
        table.land(spark, landings, shape, checkpoint)
        checkpoint(Phase.LINKED, landings)
    finally:
        for path in staged:
            path.unlink(missing_ok=True)


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


def _stage(pending: PendingLink, table: Table, shape: Shape, staged: list[Path]) -> Landing:
    import pyarrow.parquet as pq

    if pending.records is None:
        return Landing(link=pending.link, staged=None)
    # No leading underscore or dot: Spark would silently read nothing from such a file.
    path = table.staging / f"{pending.link.attempt}.parquet"
    staged.append(path)
    if table.adopts(shape):
        pq.write_table(pending.records, path, compression="snappy")
    else:
        # Written once and read once, right away: compression would not pay.
        pq.write_table(pending.records, path, compression="none", use_dictionary=False, write_statistics=False)
    return Landing(link=pending.link, staged=path, records=pending.records.num_rows)
