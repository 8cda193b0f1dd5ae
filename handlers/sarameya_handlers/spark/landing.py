"""One flush as a thread of Spark's sees it: records into staged files, then into the table; then who has won. Blocking.

Staged by pyarrow and read back by Spark, not `createDataFrame(pyarrow.Table)`: that copies the records into the
driver's heap and into its tasks, where two landings of 60 MB at once end a driver of Spark's default size.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from sarameya_handlers.landing.files import TEMPORARY
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.table import Landing, Phase, Shape, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

LEFTOVER_AGE = 24 * 3600.0
"""Seconds after which a staged file that nothing has changed is taken for a killed member's: no landing is so slow."""

OnPhase = Callable[[Phase, Sequence[Landing]], None]
"""Told of each phase of landings, in the thread that lands them. For tests that stop or kill exactly there."""


@attrs.frozen(slots=True, eq=False)
class Try:
    """A link that is to be tried, and its records; none for a link that brings none."""

    link: Link
    records: pa.Table | None
    is_alone: bool = False
    """Whether it must not share a job: what it shared one with may be what has failed."""


def open_table(spark: SparkSession, check: Callable[[], None], *, table: Table, now: float) -> None:
    """Make the table ready, and remove what killed members have left in its staging directory more than LEFTOVER_AGE
    ago; `now` in seconds since 1970. Raises HandlerError."""
    table.open(spark)
    for path in table.staging.iterdir():
        # Others may be at it too, or forbid it: then it stays.
        with suppress(OSError):
            is_ours = path.suffix == ".parquet" or path.name.startswith(TEMPORARY)
            if is_ours and path.is_file() and path.stat().st_mtime < now - LEFTOVER_AGE:
                logger.info("%s is left of a landing that never ended, and is removed", path)
                path.unlink()


def land(
    spark: SparkSession,
    check: Callable[[], None],
    *,
    tries: Sequence[Try],
    table: Table,
    shape: Shape,
    on_phase: OnPhase,
) -> None:
    """Try to append these links, of as many chains. Raises whatever went wrong; what became of them is for `found`."""
    checkpoint = partial(_checkpoint, check, on_phase)
    staged: list[Path] = []
    try:
        landings = [_staged(one, table, shape, staged) for one in tries]
        checkpoint(Phase.STAGED, landings)
        table.land(spark, landings, shape, checkpoint)
        checkpoint(Phase.LINKED, landings)
    finally:
        for path in staged:
            path.unlink(missing_ok=True)


def found(
    spark: SparkSession, check: Callable[[], None], *, table: Table, since: Mapping[ChainKey, int]
) -> dict[ChainKey, Sequence[Link]]:
    """What the table has of each chain from that link's number on."""
    links = {}
    for key, number in since.items():
        check()
        links[key] = table.links(spark, key, number)
    return links


def _checkpoint(check: Callable[[], None], on_phase: OnPhase, phase: Phase, landings: Sequence[Landing]) -> None:
    on_phase(phase, landings)
    check()


def _staged(one: Try, table: Table, shape: Shape, staged: list[Path]) -> Landing:
    import pyarrow.parquet as pq

    if one.records is None:
        return Landing(link=one.link, staged=None)
    # No leading underscore or dot: Spark would silently read nothing from such a file.
    path = table.staging / f"{one.link.attempt}.parquet"
    staged.append(path)
    if table.adopts(shape):
        pq.write_table(one.records, path, compression="snappy")
    else:
        # Written once, read once, right away: nothing to gain from packing it.
        pq.write_table(one.records, path, compression="none", use_dictionary=False, write_statistics=False)
    return Landing(link=one.link, staged=path, records=one.records.num_rows)
