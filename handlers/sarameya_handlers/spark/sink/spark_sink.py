"""The handler that lands consumed records in tables through Spark.

It determines the start offsets. partition_lander.py lands a partition, and flush_scheduler.py combines their flushes.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import attrs
import trio

from sarameya import (
    Activity,
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
from sarameya_handlers.landing.chain_start import ChainStart
from sarameya_handlers.landing.dead_letters.letters import DeadLetters
from sarameya_handlers.landing.errors import ChainError, LostRecordsError
from sarameya_handlers.landing.links import UNKNOWN_EPOCH, CommitNote, Link
from sarameya_handlers.spark.engines.engine import Engine, engine_of
from sarameya_handlers.spark.errors import LandingError, cause_of
from sarameya_handlers.spark.options import Limits, SparkOptions
from sarameya_handlers.spark.parquet.table import ParquetTable
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.sink.flush import OnPhase
from sarameya_handlers.spark.sink.options import option_defaults, sink_arguments
from sarameya_handlers.spark.sink.partition_lander import PartitionLander
from sarameya_handlers.spark.sink.retry import FlushRetry
from sarameya_handlers.spark.sink.settings import SinkSettings
from sarameya_handlers.spark.sink.shared_spark import open_shared
from sarameya_handlers.spark.sink.sink_table import FoundChain, SinkTable, SinkTables
from sarameya_handlers.spark.tables.table import Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sarameya_handlers.spark.options import Transform

logger = logging.getLogger("sarameya.spark")

READ_TIMEOUT = 30.0
"""Seconds for reading the heads of one of many tables, after which its partitions wait."""
ASSIGN_TIMEOUT = 60.0
"""Seconds for opening many tables. The partitions of those that are open start then, and the others wait."""


@attrs.define(slots=True)
class _PartitionStart:
    """State of a partition before its claim starts.

    Attributes:
        found: Its chain; None if it cannot be read.
        problem: The reason why the partition has to wait; None if it does not.
        committed: The group's committed offset.
        at: Where to start.
    """

    found: FoundChain | None = None
    problem: SarameyaError | None = None
    committed: CommittedOffset | None = None
    at: ChainStart | None = None


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

    Topics may have tables of their own (a function as `table`, or `{topic}` in an app file). Then a table's failure
    ends no session: its partitions wait, with the reason in their status, until somebody has removed the cause. Tables
    are opened when their topics are assigned.

    Args:
        table: A `Table`, the directory of a `ParquetTable`, or a function that returns the table of a topic.
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
        table: Table | str | os.PathLike[str] | Callable[[str], Table],
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
        if type(retry_for) not in (int, float) or not retry_for >= 0:
            raise ConfigError("retry_for", retry_for, "must be a number of seconds, at least 0")
        if on_missing not in ("stop", "leave_out"):
            raise ConfigError("on_missing", on_missing, "must be 'stop' or 'leave_out'")
        if isinstance(table, str | os.PathLike):
            table = ParquetTable(table)
        if not (isinstance(table, Table) or callable(table)):
            raise ConfigError(
                "table", table, "must be a table, a path, or a function that returns the table of a topic"
            )
        self._only = table if isinstance(table, Table) else None
        self._table_of = (lambda topic: table) if isinstance(table, Table) else table
        self._name = name
        if shape is not None and transform is not None:
            raise ConfigError("transform", transform, "must not be set with a shape, which has its own transform")
        self._shape = shape or Shaping(transform=transform)
        self._settings = SinkSettings(
            limits=Limits(max_rows=max_rows, max_bytes=max_bytes, max_age=max_age),
            allows_gaps=on_missing == "leave_out",
            retry_for=retry_for,
            file_bytes=file_bytes,
            dead_letters=dead_letters,
            on_phase=on_phase or (lambda phase, landings: None),
            waits_for_remedy=self._only is None,
            # A class of the user's may drop records in `frame`, also one that is derived from Shaping.
            is_transformed=self._shape.is_transformed if type(self._shape) is Shaping else not self._shape.is_plain,
        )
        self._engine = engine_of(spark)
        self._stack: AsyncExitStack | None = None
        self._tables: SinkTables | None = None
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
        """Start Spark. Open the table, if there is only one.

        Raises:
            HandlerError: Something must be installed or changed.
            LandingError: Spark or a store failed, which may pass.
        """
        if self._only is not None:
            self._only.prepare()
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(self._engine)
            tables = SinkTables(self._table_of, self._name, engine, self._shape, self._settings)
            await stack.enter_async_context(tables)
            if self._only is not None:
                await tables.of("").open()
            if isinstance(shape := self._shape, Shaping):
                await engine.run(lambda spark, _: shape.check(spark), tag=f"check-{self._name}")
            if self._settings.dead_letters is not None:
                await stack.enter_async_context(self._settings.dead_letters)
            self._stack, self._tables = stack.pop_all(), tables
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stack is not None
        stack, self._stack, self._tables = self._stack, None, None
        await stack.__aexit__(kind, error, trace)

    async def setup(self, session: Session) -> None:
        if self._tables is None:
            raise HandlerError("a SparkSink must be entered first: async with SparkSink(...) as sink")

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions' heads from their tables, and the ranges of their logs.

        If Spark or a store does not respond, this waits, as flushes do. A rebalance ends the wait, and the next
        assignment starts it again. With many tables it ends after ASSIGN_TIMEOUT. Partitions of tables that are not
        open then wait in their claims.
        """
        starts = {tp: _PartitionStart() for tp in partitions}
        self._starts.update(starts)
        if self._only is not None:
            await _find_chains(session, self._table(partitions[0]), starts)
            return
        by_topic: defaultdict[str, dict[TopicPartition, _PartitionStart]] = defaultdict(dict)
        for tp, start in starts.items():
            by_topic[tp.topic][tp] = start
        assert self._tables is not None
        with trio.move_on_after(ASSIGN_TIMEOUT):
            async with trio.open_nursery() as nursery:
                for topic, of_topic in by_topic.items():
                    _set_not_open(of_topic, topic)
                    # A table that keeps others waiting already is not waited for.
                    if not self._tables.is_opening(topic):
                        nursery.start_soon(self._try_to_find_chains, session, topic, of_topic)

    async def _try_to_find_chains(
        self, session: Session, topic: str, starts: Mapping[TopicPartition, _PartitionStart]
    ) -> None:
        """Set the chain of these partitions of a topic, or the problem."""
        assert self._tables is not None
        _set_not_open(starts, topic)
        try:
            table = self._tables.of(topic)
            await table.open()
            with trio.fail_after(READ_TIMEOUT):
                await _find_chains(session, table, starts)
        except trio.TooSlowError:
            late = f"{table.name}: the heads of its chains, and the ends of their logs, are not known after"
            _set_problem(starts, LandingError(f"{late} {READ_TIMEOUT:.0f} s"))
        except SarameyaError as error:
            _set_problem(starts, error)
        else:
            _set_problem(starts, None)

    async def start_offset(
        self, partition: TopicPartition, committed: CommittedOffset | None
    ) -> CommittedOffset | None:
        """Return the end of the partition's chain as its start offset. Until that is known, return the committed one.

        Raises:
            ChainError: To start there would lose or repeat records.
        """
        start = self._starts[partition]
        start.committed = committed
        if start.problem is None:
            try:
                return self._choose_start(start)
            except ChainError as error:
                if not self._settings.waits_for_remedy:
                    raise
                start.problem = error
        return committed

    def _choose_start(self, start: _PartitionStart) -> CommittedOffset | None:
        assert start.found is not None
        start.at = at = start.found.choose_start(start.committed)
        head = start.found.chain.head
        if at.offset is None or head is None:
            return None
        # The head's epoch is that of the record before the head's end, not of the record before a gap's end.
        epoch = head.leader_epoch if at.gap is None else UNKNOWN_EPOCH
        return CommittedOffset(at.offset, CommitNote.of(head).to_metadata(), epoch)

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        start = self._starts.pop(claim.topic_partition)
        if start.problem is not None and not await self._wait_for_remedy(session, claim, start):
            return
        assert start.found is not None
        assert start.at is not None
        table, chain = start.found.table, start.found.chain
        self._chains[claim.topic_partition] = chain
        try:
            await PartitionLander(session, claim, chain, table.scheduler, table.settings, gap=start.at.gap).run()
        except LostRecordsError:
            raise  # the log has changed, not the table
        except ChainError as error:
            if not self._settings.waits_for_remedy:
                raise
            start.problem = error
            await self._wait_for_remedy(session, claim, start)

    async def _wait_for_remedy(self, session: Session, claim: Claim, start: _PartitionStart) -> bool:
        """Wait until the partition can land.

        Returns:
            True if it can start where its claim has started. False if the claim has ended: the session ends if the
            partition has to start elsewhere.
        """
        tp, has_begun = claim.topic_partition, start.at is not None
        is_remedied = False
        async with trio.open_nursery() as nursery:
            ended = trio.Event()
            nursery.start_soon(_cancel_at_end, claim, ended, nursery.cancel_scope)
            # If it has begun, the session ends even if the cause is gone at once, which must not happen over and over.
            retry = FlushRetry(ended, report=claim.report, is_limited=False, delay=30.0 if has_begun else 0.5)
            while start.problem is not None:
                await retry.wait(f"{tp} waits", start.problem)
                with claim.report.doing(Activity.RETRYING, f"{tp} waits: {cause_of(start.problem)}"):
                    await self._try_again(session, tp, start)
            is_remedied = True
            nursery.cancel_scope.cancel()
        if not is_remedied or claim.has_ended:
            return False
        logger.info("%s can land again", tp)
        assert start.at is not None
        if not has_begun and start.at.offset in (None, claim.initial_offset):
            return True
        self._correct_commit(session, start)
        session.end(f"{tp} can land again, and starts at another offset")
        await claim.wait_ended()
        return False

    async def _try_again(self, session: Session, partition: TopicPartition, start: _PartitionStart) -> None:
        await self._try_to_find_chains(session, partition.topic, {partition: start})
        if start.problem is None:
            try:
                self._choose_start(start)
            except ChainError as error:
                start.problem = error

    def _correct_commit(self, session: Session, start: _PartitionStart) -> None:
        """Let the group commit the end of the chain, if it has committed a start that was looked up meanwhile."""
        assert start.found is not None
        head = start.found.chain.head
        if start.committed is None and head is not None:
            topic, partition = head.key.topic_partition
            note = CommitNote.of(head).to_metadata()
            session.reset_offset(topic, partition, head.to_offset, note)
            session.mark_offset(topic, partition, head.to_offset, note)

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """Let the tables store the heads of these partitions' chains, which may be idle for a while."""
        heads: defaultdict[SinkTable, list[Link]] = defaultdict(list)
        for tp in partitions:
            chain = self._chains.pop(tp, None)
            if chain is not None and chain.head is not None:
                heads[self._table(tp)].append(chain.head)
        async with trio.open_nursery() as nursery:
            for table, each in heads.items():
                nursery.start_soon(table.scheduler.rest, each)

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._chains.pop(partition, None)

    def _table(self, partition: TopicPartition) -> SinkTable:
        """Return the table of a partition. Raises HandlerError if its topic has none."""
        assert self._tables is not None
        return self._tables.of("" if self._only is not None else partition.topic)


async def _find_chains(session: Session, table: SinkTable, starts: Mapping[TopicPartition, _PartitionStart]) -> None:
    for tp, found in (await table.find_chains(session, [*starts])).items():
        starts[tp].found = found


def _set_not_open(starts: Mapping[TopicPartition, _PartitionStart], topic: str) -> None:
    _set_problem(starts, LandingError(f"the table of {topic} is not open yet"))


def _set_problem(starts: Mapping[TopicPartition, _PartitionStart], problem: SarameyaError | None) -> None:
    for start in starts.values():
        start.problem = problem


async def _cancel_at_end(claim: Claim, ended: trio.Event, scope: trio.CancelScope) -> None:
    await claim.wait_ended()
    ended.set()
    scope.cancel()
