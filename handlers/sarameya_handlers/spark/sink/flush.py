"""The blocking part of a flush, in a thread of Spark's: stages records in files, and lands them in the table.

Records are staged by pyarrow and read back by Spark. `createDataFrame(pyarrow.Table)` would copy them into the driver's
heap and into its tasks, where two batches of 60 MB at once kill a driver of Spark's default size.
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
"""Seconds after which an unchanged staged file is considered a killed member's: no flush takes so long."""

OnPhase = Callable[[Phase, Sequence[Landing]], None]
"""Called with each phase of attempts, in the thread that lands them. For tests that stop or kill exactly there."""


def open_table(spark: SparkSession, check: Callable[[], None], *, table: Table, now: float) -> None:
    """Open the table, and remove staged files that killed members left more than LEFTOVER_AGE ago.

    Args:
        spark: The session.
        check: Unused.
        table: The table.
        now: Seconds since 1970.

    Raises:
        HandlerError: The table cannot be landed in.
    """
    table.open(spark)
    for path in table.staging.iterdir():
        # Another member may be removing it too, or it is not ours to remove: then it stays.
        with suppress(OSError):
            is_ours = path.suffix == ".parquet" or path.name.startswith(TEMPORARY)
            if is_ours and path.is_file() and path.stat().st_mtime < now - LEFTOVER_AGE:
                logger.info("%s is left of a landing that never ended, and is removed", path)
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
    """Try to append these links, each of another chain. Raises whatever failed; `read_links` reads the outcome."""
    checkpoint = partial(_checkpoint, check, on_phase)
    staged: list[Path] = []
    try:
        landings = [_staged(one, table, shape, staged) for one in pending]
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


def _staged(one: PendingLink, table: Table, shape: Shape, staged: list[Path]) -> Landing:
    import pyarrow.parquet as pq

    if one.records is None:
        return Landing(link=one.link, staged=None)
    # No leading underscore or dot: Spark would silently read nothing from such a file.
    path = table.staging / f"{one.link.attempt}.parquet"
    staged.append(path)
    if table.adopts(shape):
        pq.write_table(one.records, path, compression="snappy")
    else:
        # Written once and read once, right away: compression would not pay.
        pq.write_table(one.records, path, compression="none", use_dictionary=False, write_statistics=False)
    return Landing(link=one.link, staged=path, records=one.records.num_rows)
