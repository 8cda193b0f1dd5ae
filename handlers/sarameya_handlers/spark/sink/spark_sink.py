"""The handler that lands consumed records in a table through Spark.

It determines the start offsets. partition_lander.py lands a partition, and flush_scheduler.py combines their flushes.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import attrs

from sarameya import (
    Claim,
    CommittedOffset,
    ConfigError,
    ConsumerGroupHandler,
    HandlerError,
    SarameyaError,
    Session,
    TopicPartition,
)
from sarameya_handlers.landing.chain import Chain
from sarameya_handlers.landing.chain_start import Gap, Log, begin
from sarameya_handlers.landing.dead_letters.letters import DeadLetters
from sarameya_handlers.landing.links import UNKNOWN_EPOCH, ChainKey, CommitNote, Link, Origin
from sarameya_handlers.spark.engines.engine import Engine, engine_of
from sarameya_handlers.spark.error_sources import ErrorSource, passes, source_of
from sarameya_handlers.spark.errors import LandingError, cause_of
from sarameya_handlers.spark.options import Limits, SparkOptions
from sarameya_handlers.spark.parquet.table import ParquetTable
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.sink.flush import OnPhase, open_table
from sarameya_handlers.spark.sink.flush_scheduler import FlushScheduler
from sarameya_handlers.spark.sink.options import option_defaults, sink_arguments
from sarameya_handlers.spark.sink.partition_lander import PartitionLander
from sarameya_handlers.spark.sink.retry import Retry
from sarameya_handlers.spark.sink.settings import SinkSettings
from sarameya_handlers.spark.sink.shared_spark import open_shared
from sarameya_handlers.spark.tables.table import Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sarameya_handlers.spark.options import Transform

logger = logging.getLogger("sarameya.spark")


@attrs.frozen(slots=True)
class _PartitionStart:
    """State of a partition before its claim starts."""

    chain: Chain
    log: Log
    gap: Gap | None = None
    """Gap that must be recorded first."""


class SparkSink(ConsumerGroupHandler):
    """Lands partitions in a table through Spark, each record exactly once, and marks the landed records.

        async with SparkSink("landing/orders", max_age=10.0, transform=parse) as sink:
            await group.consume(["orders"], sink)

    A partition is flushed when it has collected `max_rows` records or `max_bytes` bytes (of Arrow columns), when its
    oldest record is `max_age` seconds old, when the group's byte budget has no room for more, and when the session
    ends.

    The records of a batch are a DataFrame with the columns of Spark's own Kafka source (key, value, topic, partition,
    offset, timestamp, timestampType, headers). All are of one partition. `transform` or `shape` converts them to the
    rows to write.

    The start offset of a partition is the end of its chain in the table, not the committed offset. The two are
    compared. A difference raises ChainError, unless a member that died, hung or woke too late can explain it. Offsets
    are marked after the table has been read back, with a note of the link. A failed flush is retried for `retry_for`
    seconds if its cause may pass; other failures raise LandingError, which ends the session. Records that cannot be
    written go to `dead_letters`, and the others land; without `dead_letters`, PoisonError names the first bad record.

    One sink may serve several members.

    Args:
        table: A `Table`, or the directory of a `ParquetTable`.
        name: Name of the chains in the table. Sinks that land the same topic in one table need different names.
        max_rows: Maximum number of records of a batch.
        max_bytes: Maximum number of bytes of a batch, in memory.
        max_age: Maximum seconds for which a record waits.
        file_bytes: Wanted size of files. The number of bytes to collect is then adjusted to the size of the written
            files, starting with `max_bytes`.
        transform: Converts a DataFrame of records to rows.
        shape: Converts records to rows, in another way than `transform`.
        dead_letters: Place for records that cannot be written.
        on_missing: Reaction to records that cannot land, since retention has deleted them, or the group's committed
            offset was moved beyond them. "stop" raises an error, "leave_out" records a gap in the chain.
        retry_for: Seconds for which a failed flush is retried.
        spark: Options of a Spark that the sink starts and stops, the address of a Spark Connect server
            (`sc://host:port`), or your SparkSession.
        on_phase: Called with each phase of a flush.
    """

    def __init__(
        self,
        table: Table | str | os.PathLike[str],
        *,
        name: str = "sarameya",
        max_rows: int = Limits().max_rows,
        max_bytes: int = Limits().max_bytes,
        max_age: float = Limits().max_age,
        file_bytes: int | None = None,
        transform: Transform | None = None,
        shape: Shape | None = None,
        dead_letters: DeadLetters | None = None,
        on_missing: str = "stop",
        retry_for: float = 900.0,
        spark: SparkOptions | SparkSession | Engine | str | None = None,
        on_phase: OnPhase | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigError("name", name, "must be a non-empty string")
        if file_bytes is not None and (type(file_bytes) is not int or file_bytes < 1):
            raise ConfigError("file_bytes", file_bytes, "must be a whole number of at least 1")
        if type(retry_for) not in (int, float) or not retry_for >= 0:
            raise ConfigError("retry_for", retry_for, "must be a number of seconds, at least 0")
        if on_missing not in ("stop", "leave_out"):
            raise ConfigError("on_missing", on_missing, "must be 'stop' or 'leave_out'")
        self._table = table if isinstance(table, Table) else ParquetTable(table)
        self._name = name
        self._settings = SinkSettings(
            limits=Limits(max_rows=max_rows, max_bytes=max_bytes, max_age=max_age),
            allows_gaps=on_missing == "leave_out",
            retry_for=retry_for,
            file_bytes=file_bytes,
            dead_letters=dead_letters,
            on_phase=on_phase or (lambda phase, landings: None),
        )
        if shape is not None and transform is not None:
            raise ConfigError("transform", transform, "must not be set with a shape, which has its own transform")
        self._shape = shape or Shaping(transform=transform)
        self._engine = engine_of(spark)
        self._stack: AsyncExitStack | None = None
        self._scheduler: FlushScheduler | None = None
        self._starts: dict[TopicPartition, _PartitionStart] = {}
        self._chains: dict[TopicPartition, Chain] = {}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Build a sink from plain values, as in a TOML table.

        Args:
            options: `table` (see tables/named.py), or `path` for a Parquet directory; `staging` and `single_driver` if
                the table has such arguments; this class's arguments by their names; `partition_by`, `max_partitions`
                and `evolve_schema` of Layout; the options of `Shaping`; `dead_letters` and `spark`, which are tables
                of options.

        Raises:
            ConfigError: An option is wrong.
            HandlerError: The table is missing.
        """
        return cls(**sink_arguments(options))

    @classmethod
    def option_defaults(cls) -> dict[str, Any]:
        """Return the default values of the options of `from_options`."""
        return option_defaults(cls)

    @staticmethod
    def open_shared(options: Mapping[str, Any]) -> AbstractAsyncContextManager[Mapping[str, Any]]:
        """Start a Spark Connect server for all workers of a supervisor, if they share one (`spark.share`)."""
        return open_shared(options)

    async def __aenter__(self) -> Self:
        """Start Spark and open the table.

        Raises:
            HandlerError: Something must be installed or changed.
            LandingError: Spark or a store failed, which may pass.
        """
        self._table.prepare()
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(self._engine)
            await self._open(engine)
            # Some tables know this only after they were opened.
            self._settings = attrs.evolve(self._settings, restate_after=self._table.restate_after)
            if self._settings.dead_letters is not None:
                await stack.enter_async_context(self._settings.dead_letters)
            scheduler = FlushScheduler(
                engine, self._table, self._shape, max_flushes=engine.max_jobs, on_phase=self._settings.on_phase
            )
            await stack.enter_async_context(scheduler)
            self._stack, self._scheduler = stack.pop_all(), scheduler
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stack is not None
        stack, self._stack, self._scheduler = self._stack, None, None
        await stack.__aexit__(kind, error, trace)

    async def _open(self, engine: Engine) -> None:
        opening = partial(open_table, table=self._table, now=time.time())
        try:
            await engine.run(opening, tag=f"open-{self._name}")
            if isinstance(shape := self._shape, Shaping):
                await engine.run(lambda spark, _: shape.check(spark), tag=f"check-{self._name}")
        except SarameyaError:
            raise
        except Exception as error:
            # Here, while Spark runs: afterwards the error's text is lost.
            hint = (
                ""
                if source_of(error) is ErrorSource.SPARK
                else "; does Spark have the jars and catalogs that the table needs (spark.conf)?"
            )
            raise LandingError(f"{self._table.name} cannot be opened: {cause_of(error)}{hint}") from error

    async def setup(self, session: Session) -> None:
        if self._scheduler is None:
            raise HandlerError("a SparkSink must be entered first: async with SparkSink(...) as sink")

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions' heads from the table, and the ranges of their logs.

        If Spark or a store does not respond, this waits, as flushes do. A rebalance ends the wait, and the next
        assignment starts it anew.
        """
        keys = {tp: ChainKey(self._name, *tp) for tp in partitions}
        heads = await self._heads([*keys.values()])
        assert self._scheduler is not None
        self._scheduler.warn_of_growth(session)
        known_heads = {tp: heads[key] for tp, key in keys.items() if key in heads}
        logs = await self._log_ranges(session, [*known_heads] if self._table.remembers else partitions, known_heads)
        for tp, key in keys.items():
            origin = Origin(group=session.group, topic_id=session.topic_id(tp.topic), cluster_id=session.cluster_id)
            self._starts[tp] = _PartitionStart(
                Chain(key, origin, known_heads.get(tp)), logs.get(tp, Log(start=0, end=0))
            )

    async def start_offset(
        self, partition: TopicPartition, committed: CommittedOffset | None
    ) -> CommittedOffset | None:
        """Return the end of the partition's chain as its start offset.

        Raises:
            ChainError: To start there would lose or repeat records.
        """
        known = self._starts[partition]
        chain = known.chain
        if not self._table.remembers and committed is not None:
            self._recall(chain, committed)
        start = begin(
            chain.key, chain.origin, chain.head, committed, known.log, may_leave_out=self._settings.allows_gaps
        )
        self._starts[partition] = attrs.evolve(known, gap=start.gap)
        if start.offset is None or chain.head is None:
            return None
        # The head's epoch is that of the record before the head's end, not of the record before a gap's end.
        epoch = chain.head.leader_epoch if start.gap is None else UNKNOWN_EPOCH
        return CommittedOffset(start.offset, CommitNote.of(chain.head).to_metadata(), epoch)

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        assert self._scheduler is not None
        known = self._starts.pop(claim.topic_partition)
        self._chains[claim.topic_partition] = known.chain
        await PartitionLander(session, claim, known.chain, self._scheduler, self._settings, gap=known.gap).run()

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """Let the table store the heads of these partitions' chains, which may be idle for a while."""
        assert self._scheduler is not None
        chains = [self._chains.pop(tp) for tp in partitions if tp in self._chains]
        heads = [chain.head for chain in chains if chain.head is not None]
        if heads:
            await self._scheduler.rest(heads)

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._chains.pop(partition, None)

    async def _heads(self, keys: Sequence[ChainKey]) -> dict[ChainKey, Link]:
        """Return the heads of these chains. Raises our own errors that do not pass, and LandingError for all others."""
        assert self._scheduler is not None
        retry = Retry(time_limit=self._settings.retry_for)
        while True:
            try:
                return await self._scheduler.heads(keys)
            except Exception as error:
                if isinstance(error, SarameyaError) and not passes(error):
                    raise
                await retry.wait(f"{self._table.name}: the heads of its chains cannot be read", error)

    def _recall(self, chain: Chain, committed: CommittedOffset) -> None:
        """Set the chain's head from the commit's note, for a table that does not store its chains."""
        note = CommitNote.from_metadata(committed.metadata)
        if note is not None and note.sink == chain.key.sink:
            chain.head = note.link(chain.key, chain.origin, committed.offset, committed.leader_epoch)
            self._table.recall(chain.head)

    async def _log_ranges(
        self, session: Session, partitions: Sequence[TopicPartition], heads: Mapping[TopicPartition, Link]
    ) -> dict[TopicPartition, Log]:
        if not partitions:
            return {}
        ranges = await session.log_ranges(partitions)
        epochs = {tp: head.leader_epoch for tp, head in heads.items() if head.leader_epoch != UNKNOWN_EPOCH}
        ends = await session.epoch_ends(epochs) if epochs else {}
        return {tp: Log(start=log.start, end=log.end, epoch_end=ends.get(tp)) for tp, log in ranges.items()}
