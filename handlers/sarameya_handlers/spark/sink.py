"""The handler that lands what it consumes on Spark. Owns where partitions begin; partition.py lands them, lander.py
has their landings share Spark's jobs."""

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
from sarameya_handlers.landing.dead_letters import DeadLetters
from sarameya_handlers.landing.links import UNKNOWN_EPOCH, ChainKey, Link, Note, Origin
from sarameya_handlers.landing.starting import Gap, Log, begin
from sarameya_handlers.spark.engines.engine import Engine, engine_of
from sarameya_handlers.spark.error_sources import ErrorSource, passes, source_of
from sarameya_handlers.spark.errors import LandingError, cause_of
from sarameya_handlers.spark.lander import Lander
from sarameya_handlers.spark.landing import OnPhase, open_table
from sarameya_handlers.spark.options import Limits, SparkOptions
from sarameya_handlers.spark.parquet.table import ParquetTable
from sarameya_handlers.spark.partition import Partition
from sarameya_handlers.spark.retry import Retry
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.sharing import open_shared
from sarameya_handlers.spark.sink_options import option_defaults, sink_arguments
from sarameya_handlers.spark.tables.table import Shape, Table
from sarameya_handlers.spark.terms import Terms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sarameya_handlers.spark.options import Transform

logger = logging.getLogger("sarameya.spark")


@attrs.frozen(slots=True)
class _Known:
    """What was found out about a partition before its claim began."""

    chain: Chain
    log: Log
    gap: Gap | None = None
    """What has to be left out first."""


class SparkSink(ConsumerGroupHandler):
    """Lands partitions in a table through Spark, each record exactly once, and marks what has landed.

        async with SparkSink("landing/orders", max_age=10.0, transform=parse) as sink:
            await group.consume(["orders"], sink)

    `table` is a `Table`, or the directory of a `ParquetTable`. A partition lands when it has collected `max_rows`
    records or `max_bytes` bytes (of Arrow columns), when its oldest record is `max_age` seconds old, when the group's
    byte budget has no room for more, and when the session ends. Where `file_bytes` says how large files should be, what
    landings bring rules how many bytes are collected, from `max_bytes` on. The DataFrame has the columns of Spark's own
    Kafka source (key, value, topic, partition, offset, timestamp, timestampType, headers), and the records of one
    partition; `transform`, or a `shape` of yours, makes of it what is written. `spark` says which Spark: options of
    one that the sink starts and stops, the address of a Spark Connect server (`sc://host:port`), or a SparkSession of
    yours.

    The table rules where a partition begins, not Kafka's commit: what it says is held against that, and what cannot be
    explained by members that died, hung or woke is raised as ChainError. Offsets are marked once the table has been
    read back, with a note of the link that landed. A landing that fails is tried again for `retry_for` seconds while
    its cause may pass by itself; then, and for others, LandingError ends the session. Records that Spark can make
    nothing of go to `dead_letters`, and the rest lands; without such a place, PoisonError names the first.

    `name` is that of the chains in the table: sinks that land the same topic in one table need different ones.
    `on_missing` says what becomes of records that retention removes before they land, or beyond which somebody moves
    the group's commit: "stop", or "leave_out", which makes a gap in the chain. One sink may serve several members.
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
        self._terms = Terms(
            limits=Limits(max_rows=max_rows, max_bytes=max_bytes, max_age=max_age),
            may_leave_out=on_missing == "leave_out",
            retry_for=retry_for,
            file_bytes=file_bytes,
            dead_letters=dead_letters,
            on_phase=on_phase or (lambda phase, landings: None),
        )
        if shape is not None and transform is not None:
            raise ConfigError("transform", transform, "must not be there beside a shape, which has its own")
        self._shape = shape or Shaping(transform=transform)
        self._engine = engine_of(spark)
        self._stack: AsyncExitStack | None = None
        self._lander: Lander | None = None
        self._known: dict[TopicPartition, _Known] = {}
        self._landing: dict[TopicPartition, Chain] = {}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """A sink from plain values, as a TOML table gives them: `table` (see `spark/tables/named.py`), or `path` for a
        Parquet directory; `staging` and `single_driver` where tables have them; those of this class by their names;
        `partition_by`, `max_partitions`, `evolve_schema` of Layout; what `Shaping` reads; `dead_letters` and `spark`,
        tables of their own. Raises ConfigError, HandlerError.
        """
        return cls(**sink_arguments(options))

    @classmethod
    def option_defaults(cls) -> dict[str, Any]:
        """What `from_options` takes for those that are not given."""
        return option_defaults(cls)

    @staticmethod
    def open_shared(options: Mapping[str, Any]) -> AbstractAsyncContextManager[Mapping[str, Any]]:
        """What a supervisor opens for all its workers: a Spark Connect server, with `spark.share`."""
        return open_shared(options)

    async def __aenter__(self) -> Self:
        """Start Spark and make the table ready. Raises HandlerError that says what to install or change, LandingError
        for what Spark, or a store, says against it, which may pass."""
        self._table.prepare()
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(self._engine)
            await self._open(engine)
            # Some tables know only now how long they remember.
            self._terms = attrs.evolve(self._terms, restate_after=self._table.restate_after)
            if self._terms.dead_letters is not None:
                await stack.enter_async_context(self._terms.dead_letters)
            lander = Lander(
                engine, self._table, self._shape, max_flushes=engine.max_jobs, on_phase=self._terms.on_phase
            )
            await stack.enter_async_context(lander)
            self._stack, self._lander = stack.pop_all(), lander
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stack is not None
        stack, self._stack, self._lander = self._stack, None, None
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
            # Here, while Spark is there: afterwards such an error has no text any more.
            hint = (
                ""
                if source_of(error) is ErrorSource.SPARK
                else "; has Spark what the table needs (spark.conf: jars, catalogs)?"
            )
            raise LandingError(f"{self._table.name} cannot be opened: {cause_of(error)}{hint}") from error

    async def setup(self, session: Session) -> None:
        if self._lander is None:
            raise HandlerError("a SparkSink must be entered first: async with SparkSink(...) as sink")

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """Find out what the table has of these partitions, and what their logs have.

        Spark or a store that is away is waited for as landings wait; a rebalance meanwhile cuts that off, and the next
        assignment asks anew.
        """
        keys = {tp: ChainKey(self._name, *tp) for tp in partitions}
        heads = await self._heads([*keys.values()])
        assert self._lander is not None
        self._lander.warn_of_growth(session)
        begun = {tp: heads[key] for tp, key in keys.items() if key in heads}
        logs = await self._logs(session, [*begun] if self._table.remembers else partitions, begun)
        for tp, key in keys.items():
            origin = Origin(group=session.group, topic_id=session.topic_id(tp.topic), cluster_id=session.cluster_id)
            self._known[tp] = _Known(Chain(key, origin, begun.get(tp)), logs.get(tp, Log(start=0, end=0)))

    async def start_offset(
        self, partition: TopicPartition, committed: CommittedOffset | None
    ) -> CommittedOffset | None:
        """Where the table says that reading goes on. Raises ChainError where that would lose or repeat records."""
        known = self._known[partition]
        chain = known.chain
        if not self._table.remembers and committed is not None:
            self._recall(chain, committed)
        start = begin(
            chain.key, chain.origin, chain.head, committed, known.log, may_leave_out=self._terms.may_leave_out
        )
        self._known[partition] = attrs.evolve(known, gap=start.gap)
        if start.offset is None or chain.head is None:
            return None
        # The head's epoch is that of the record before its end, not before the end of a gap.
        epoch = chain.head.leader_epoch if start.gap is None else UNKNOWN_EPOCH
        return CommittedOffset(start.offset, Note.of(chain.head).to_metadata(), epoch)

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        assert self._lander is not None
        known = self._known.pop(claim.topic_partition)
        self._landing[claim.topic_partition] = known.chain
        await Partition(session, claim, known.chain, self._lander, self._terms, gap=known.gap).run()

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """Tell the table of the heads that nobody lands behind for a while."""
        assert self._lander is not None
        chains = [self._landing.pop(tp) for tp in partitions if tp in self._landing]
        heads = [chain.head for chain in chains if chain.head is not None]
        if heads:
            await self._lander.rest(heads)

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._landing.pop(partition, None)

    async def _heads(self, keys: Sequence[ChainKey]) -> dict[ChainKey, Link]:
        """Where the table says that these chains end. Raises what it says about them, LandingError for all else."""
        assert self._lander is not None
        retry = Retry(patience=self._terms.retry_for)
        while True:
            try:
                return await self._lander.heads(keys)
            except Exception as error:
                if isinstance(error, SarameyaError) and not passes(error):
                    raise
                await retry.wait(f"{self._table.name}: where its chains end is not known", error)

    def _recall(self, chain: Chain, committed: CommittedOffset) -> None:
        """Have the commit's word for where the chain ends, of a table that does not know."""
        note = Note.from_metadata(committed.metadata)
        if note is not None and note.sink == chain.key.sink:
            chain.head = note.link(chain.key, chain.origin, committed.offset, committed.leader_epoch)
            self._table.recall(chain.head)

    async def _logs(
        self, session: Session, partitions: Sequence[TopicPartition], heads: Mapping[TopicPartition, Link]
    ) -> dict[TopicPartition, Log]:
        if not partitions:
            return {}
        ranges = await session.log_ranges(partitions)
        epochs = {tp: head.leader_epoch for tp, head in heads.items() if head.leader_epoch != UNKNOWN_EPOCH}
        ends = await session.epoch_ends(epochs) if epochs else {}
        return {tp: Log(start=log.start, end=log.end, epoch_end=ends.get(tp)) for tp, log in ranges.items()}
