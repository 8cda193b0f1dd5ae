"""The handler that lands what it consumes on Spark. Owns when a partition lands and when it is marked.

One task a claim: collect batches, land them, mark them, again. While a landing is on its way the claim is not
read, so a partition holds at most one landing's worth and the last batch, and the runtime pauses its fetching.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import trio

from sarameya import Claim, ClaimBatches, ConfigError, ConsumerGroupHandler, HandlerError, Session
from sarameya_handlers.options import check_known
from sarameya_handlers.spark.buffer import Collected, PartitionBuffer
from sarameya_handlers.spark.engine import AdoptedEngine, Engine, SparkEngine
from sarameya_handlers.spark.errors import LandingError, cause_of
from sarameya_handlers.spark.landing import land
from sarameya_handlers.spark.options import Limits, SparkOptions, from_mapping, load_transform
from sarameya_handlers.spark.parquet import ParquetTable
from sarameya_handlers.spark.table import Landing, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sarameya_handlers.spark.options import Transform

logger = logging.getLogger("sarameya.spark")

_FORMATS = {"parquet": ParquetTable}
_LIMITS = ("max_rows", "max_bytes", "max_age")


class SparkSink(ConsumerGroupHandler):
    """Lands partitions in a table through Spark, and marks what has landed.

        async with SparkSink("landing/orders", max_age=10.0, transform=parse) as sink:
            await group.consume(["orders"], sink)

    `table` is a `Table`, or the directory of a `ParquetTable`. A partition lands when it has collected `max_rows`
    records or `max_bytes` bytes (of Arrow columns), when its oldest record is `max_age` seconds old, and when the
    session ends. The DataFrame has the columns of Spark's own Kafka source (key, value, topic, partition, offset,
    timestamp, timestampType, headers); `transform` makes of it what is written. `spark` says which Spark: options
    of one that the sink starts and stops, or a SparkSession of yours.

    Offsets are marked once the write has committed, never before. A landing that fails is raised as LandingError,
    which ends the session. One sink may serve several members.
    """

    def __init__(
        self,
        table: Table | str | os.PathLike[str],
        *,
        max_rows: int = Limits().max_rows,
        max_bytes: int = Limits().max_bytes,
        max_age: float = Limits().max_age,
        transform: Transform | None = None,
        spark: SparkOptions | SparkSession | Engine | None = None,
    ) -> None:
        self._table = table if isinstance(table, Table) else ParquetTable(table)
        self._limits = Limits(max_rows=max_rows, max_bytes=max_bytes, max_age=max_age)
        self._transform = transform
        self._engine = _engine(spark)
        self._entered = False

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """A sink from plain values, as a TOML table gives them.

        `path` (required), `format` ("parquet"), `max_rows`, `max_bytes`, `max_age`, `transform`
        ("package.module:function"), `spark` (a table of SparkOptions). Raises ConfigError for anything else, and
        HandlerError without a `path`.
        """
        check_known(options, {"path", "format", "transform", "spark", *_LIMITS})
        if "path" not in options:
            raise HandlerError("option 'path' is missing: the directory to land in")
        if not isinstance(options["path"], str):
            raise ConfigError("path", options["path"], "must be the directory to land in")
        kind = options.get("format", "parquet")
        if not isinstance(kind, str) or kind not in _FORMATS:
            raise ConfigError("format", kind, f"must be one of {', '.join(map(repr, _FORMATS))}")
        return cls(
            _FORMATS[kind](options["path"]),
            transform=load_transform(options["transform"]) if "transform" in options else None,
            spark=from_mapping(SparkOptions, options.get("spark", {}), prefix="spark."),
            **{name: options[name] for name in _LIMITS if name in options},
        )

    async def __aenter__(self) -> Self:
        """Check the table and start Spark. Raises HandlerError that says what to install or to change."""
        await trio.to_thread.run_sync(self._table.open)
        await self._engine.__aenter__()
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered = False
        await self._engine.__aexit__(kind, error, trace)

    async def setup(self, session: Session) -> None:
        if not self._entered:
            raise HandlerError("a SparkSink must be entered first: async with SparkSink(...) as sink")

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        buffer = PartitionBuffer(self._limits, claim.initial_offset)
        batches = claim.batches()
        more = True
        while more:
            more = await _collect(batches, buffer)
            while buffer.is_due(trio.current_time()) or (buffer.rows and not more):
                if session.is_lost:
                    # Whoever owns the partition now lands these records; ours would be theirs once more.
                    logger.warning("%s: %d rows not landed, the membership is lost", claim.topic_partition, buffer.rows)
                    return
                await self._land(session, claim, buffer.take())

    async def _land(self, session: Session, claim: Claim, collected: Collected) -> None:
        landing = Landing(
            partition=claim.topic_partition,
            from_offset=collected.from_offset,
            to_offset=collected.to_offset,
            rows=collected.table.num_rows,
            attempt=uuid4().hex,
        )
        work = partial(land, records=collected.table, landing=landing, table=self._table, transform=self._transform)
        began = trio.current_time()
        try:
            rows = await self._engine.run(work, tag=landing.attempt)
        except trio.Cancelled:
            logger.warning("%s: cancelled, attempt %s may or may not have landed", landing, landing.attempt)
            raise
        except Exception as error:
            raise LandingError(f"{landing} did not land in {self._table}: {cause_of(error)}") from error
        session.mark_offset(claim.topic, claim.partition, landing.to_offset)
        logger.info("%s: %d rows landed in %.2f s", landing, rows, trio.current_time() - began)


async def _collect(batches: ClaimBatches, buffer: PartitionBuffer) -> bool:
    """Take batches until it is time to land; False when the claim has ended."""
    while not buffer.is_due(trio.current_time()):
        # A batch either comes or stays for the next call: the iterator's steps are cancel-safe.
        with trio.move_on_at(buffer.deadline):
            try:
                batch = await anext(batches)
            except StopAsyncIteration:
                return False
            buffer.add(batch.to_arrow(), batch.next_offset, trio.current_time())
    return True


def _engine(spark: SparkOptions | SparkSession | Engine | None) -> Engine:
    if isinstance(spark, Engine):
        return spark
    if spark is None or isinstance(spark, SparkOptions):
        return SparkEngine(spark or SparkOptions())
    return AdoptedEngine(spark)
