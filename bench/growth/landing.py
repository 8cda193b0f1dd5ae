"""Lands one batch as a sink does: stages records, appends them as the next link, and reads the chain back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from bench.growth.chains import ROWS, link
from sarameya.arrow import kafka_schema
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LostLandingError(Exception):
    """A batch has landed, but its link is not the chain's last one."""


def land(spark: SparkSession | None, table: Table, key: ChainKey, head: Link | None) -> Link:
    """Append the next link to a chain, and return it as the table has it.

    Args:
        spark: A session; None if the table needs none.
        table: The table.
        key: Identity of the chain.
        head: Last link of the chain, if any.

    Raises:
        LostLandingError: The table does not have the link.
    """
    number = head.number + 1 if head else 1
    tried = attrs.evolve(link(key, number, uuid4().hex), rows=0, size_bytes=-1)
    staged = table.staging.directory / f"{tried.attempt}.parquet"
    pq.write_table(_records(tried), staged)
    landing = Landing(link=tried, staged=StagedFile(staged), records=ROWS)
    try:
        table.land(spark, [landing], Shaping(), lambda phase, landings: None)  # type: ignore[arg-type]
    finally:
        staged.unlink(missing_ok=True)
    found = table.links(spark, key, max(number - 1, 1))  # type: ignore[arg-type]
    if not found or found[-1].attempt != tried.attempt:
        raise LostLandingError(f"{tried} is not the last link of {table.name}: {found[-1:]}")
    return found[-1]


def _records(new: Link) -> pa.Table:
    columns = {
        "key": [None] * ROWS,
        "value": [bytes(200)] * ROWS,
        "topic": [new.key.topic] * ROWS,
        "partition": [new.key.partition] * ROWS,
        "offset": list(range(new.from_offset, new.to_offset)),
        "timestamp": [1_790_000_000_000_000] * ROWS,
        "timestampType": [0] * ROWS,
        "headers": [None] * ROWS,
    }
    return pa.table({name: pa.array(values, kafka_schema().field(name).type) for name, values in columns.items()})
