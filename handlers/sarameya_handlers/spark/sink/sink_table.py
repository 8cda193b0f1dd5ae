"""Tables of a sink: each is opened, its chains are read, and its partitions share its flushes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Self

import attrs
import trio

from sarameya import CommittedOffset, HandlerError, SarameyaError, Session, TopicPartition
from sarameya_handlers.landing.chain import Chain
from sarameya_handlers.landing.chain_start import ChainStart, Log, choose_chain_start
from sarameya_handlers.landing.links import UNKNOWN_EPOCH, ChainKey, CommitNote, Link, Origin
from sarameya_handlers.spark.engines.engine import Engine
from sarameya_handlers.spark.error_sources import ErrorSource, passes, source_of
from sarameya_handlers.spark.errors import LandingError, cause_of
from sarameya_handlers.spark.sink.flush import open_table
from sarameya_handlers.spark.sink.flush_scheduler import FlushScheduler
from sarameya_handlers.spark.sink.flush_slots import FlushSlots
from sarameya_handlers.spark.sink.retry import FlushRetry
from sarameya_handlers.spark.sink.settings import SinkSettings
from sarameya_handlers.spark.tables.table import Shape, Table


@attrs.frozen(slots=True)
class FoundChain:
    """A partition's chain and log, as they were before its claim started."""

    table: SinkTable
    chain: Chain
    log: Log

    def choose_start(self, committed: CommittedOffset | None) -> ChainStart:
        """Return where to start, if the group has committed this offset. Raises ChainError."""
        chain, table = self.chain, self.table
        if not table.remembers and committed is not None:
            table.recall(chain, committed)
        allows_gaps = table.settings.allows_gaps
        return choose_chain_start(chain.key, chain.origin, chain.head, committed, self.log, may_leave_out=allows_gaps)


@attrs.define(slots=True, eq=False)
class _Opening:
    """An attempt to open a table. `problem` is None if it has succeeded."""

    problem: SarameyaError | None
    ended: trio.Event = attrs.field(factory=trio.Event)


class SinkTable:
    """A table of a sink. `open` must have returned before anything else is called.

    Args:
        table: The table.
        sink: Name of the sink, which its chains have.
        engine: Runs Spark.
        shape: Converts records to rows.
        settings: The sink's settings.
        nursery: Flushes run here.
        slots: Slots for the concurrent flushes of all tables of the sink.
    """

    def __init__(
        self,
        table: Table,
        sink: str,
        engine: Engine,
        shape: Shape,
        settings: SinkSettings,
        *,
        nursery: trio.Nursery,
        slots: FlushSlots,
    ) -> None:
        self._table = table
        self._sink = sink
        self._engine = engine
        self.settings = settings
        self.scheduler = FlushScheduler(engine, table, shape, nursery=nursery, slots=slots, on_phase=settings.on_phase)
        self._nursery = nursery
        self._slots = slots
        self._opening: _Opening | None = None
        self._is_open = False

    @property
    def name(self) -> str:
        """Name of the table."""
        return self._table.name

    @property
    def remembers(self) -> bool:
        """False if only Kafka's commits have the table's chains."""
        return self._table.remembers

    @property
    def is_opening(self) -> bool:
        """True while an attempt to open the table lasts."""
        return self._opening is not None

    async def open(self) -> None:
        """Open the table, unless it is open. A cancelled call does not end the attempt: later calls wait for the same.

        Raises:
            HandlerError: Something must be installed or changed.
            LandingError: Spark or a store failed, which may pass.
        """
        if self._is_open:
            return
        if self._opening is None:
            self._opening = _Opening(LandingError(f"{self.name} was not opened"))
            self._nursery.start_soon(self._open, self._opening)
        opening = self._opening
        await opening.ended.wait()
        if opening.problem is not None:
            raise opening.problem

    async def _open(self, opening: _Opening) -> None:
        """Open the table in the sink's nursery: the thread of a cancelled attempt would keep its Spark session."""
        try:
            # A store that does not respond must leave slots for flushes.
            async with self._slots.slot(has_failed=True):
                await self._engine.run(partial(open_table, table=self._table, now=time.time()), tag=f"open-{self.name}")
        except SarameyaError as error:
            opening.problem = error
        except Exception as error:  # noqa: BLE001 - raised by `open`
            # Described here, while Spark runs: afterwards the error's text is lost.
            hint = (
                ""
                if source_of(error) is ErrorSource.SPARK
                else "; does Spark have the jars and catalogs that the table needs (spark.conf)?"
            )
            opening.problem = LandingError(f"{self.name} cannot be opened: {cause_of(error)}{hint}")
            opening.problem.__cause__ = error
        else:
            opening.problem = None
            # Some tables know this only after they were opened.
            self.settings = attrs.evolve(self.settings, restate_after=self._table.restate_after)
            self.scheduler.start()
            self._is_open = True
        finally:
            self._opening = None
            opening.ended.set()

    async def find_chains(
        self, session: Session, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, FoundChain]:
        """Read these partitions' heads from the table, and the ranges of their logs.

        If Spark or a store does not respond, this waits, as flushes do. If partitions wait for a remedy, the first
        failure is raised.
        """
        keys = {tp: ChainKey(self._sink, *tp) for tp in partitions}
        heads = await self._heads([*keys.values()])
        self.scheduler.warn_of_growth(session)
        known_heads = {tp: heads[key] for tp, key in keys.items() if key in heads}
        logs = await _log_ranges(session, [*known_heads] if self.remembers else partitions, known_heads)
        found = {}
        for tp, key in keys.items():
            origin = Origin(group=session.group, topic_id=session.topic_id(tp.topic), cluster_id=session.cluster_id)
            found[tp] = FoundChain(self, Chain(key, origin, known_heads.get(tp)), logs.get(tp, Log(start=0, end=0)))
        return found

    async def _heads(self, keys: Sequence[ChainKey]) -> dict[ChainKey, Link]:
        """Return the heads of these chains. Raises our own errors that do not pass, and LandingError for all others."""
        retry = FlushRetry(time_limit=0.0 if self.settings.waits_for_remedy else self.settings.retry_for)
        while True:
            try:
                return await self.scheduler.heads(keys)
            except Exception as error:
                if isinstance(error, SarameyaError) and not passes(error):
                    raise
                await retry.wait(f"{self.name}: the heads of its chains cannot be read", error)

    def recall(self, chain: Chain, committed: CommittedOffset) -> None:
        """Set the chain's head from the commit's note, for a table that does not store its chains."""
        note = CommitNote.from_metadata(committed.metadata)
        if note is not None and note.sink == chain.key.sink:
            chain.head = note.link(chain.key, chain.origin, committed.offset, committed.leader_epoch)
            self._table.recall(chain.head)


class SinkTables:
    """The tables of a sink, which share its Spark. An async context manager, inside which flushes run.

    Args:
        table_of: Returns the table of a topic: the same object for topics that land in the same table.
        sink: Name of the sink.
        engine: Runs Spark.
        shape: Converts records to rows.
        settings: The sink's settings.
    """

    def __init__(
        self, table_of: Callable[[str], Table], sink: str, engine: Engine, shape: Shape, settings: SinkSettings
    ) -> None:
        self._table_of = table_of
        self._arguments = sink, engine, shape, settings
        self._nursery_manager = trio.open_nursery()
        self._slots = FlushSlots(engine.max_jobs)
        self._by_topic: dict[str, SinkTable] = {}
        self._by_table: dict[Table, SinkTable] = {}

    async def __aenter__(self) -> Self:
        self._nursery = await self._nursery_manager.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel the flushes that run."""
        self._nursery.cancel_scope.cancel()
        # Without the block's own exception, which the nursery would wrap in a group.
        await self._nursery_manager.__aexit__(None, None, None)

    def of(self, topic: str) -> SinkTable:
        """Return the table of a topic, which may not be open yet. Raises HandlerError if the topic has none."""
        if topic not in self._by_topic:
            table = self._make(topic)
            if table not in self._by_table:
                if any(other.name == table.name for other in self._by_table):
                    raise HandlerError(
                        f"the table of {topic} is another object than the one with the same name, {table.name}: "
                        "return one object for each table"
                    )
                made = SinkTable(table, *self._arguments, nursery=self._nursery, slots=self._slots)
                self._by_table[table] = made
            self._by_topic[topic] = self._by_table[table]
        return self._by_topic[topic]

    def is_opening(self, topic: str) -> bool:
        """Return whether an attempt to open the table of a topic lasts."""
        return topic in self._by_topic and self._by_topic[topic].is_opening

    def _make(self, topic: str) -> Table:
        try:
            table = self._table_of(topic)
        except SarameyaError:
            raise
        except Exception as error:
            raise HandlerError(f"the table of {topic} is unknown: {type(error).__name__}: {error}") from error
        if not isinstance(table, Table):
            raise HandlerError(f"the table of {topic} is {table!r}, which is no table")
        return table


async def _log_ranges(
    session: Session, partitions: Sequence[TopicPartition], heads: Mapping[TopicPartition, Link]
) -> dict[TopicPartition, Log]:
    if not partitions:
        return {}
    ranges = await session.log_ranges(partitions)
    epochs = {tp: head.leader_epoch for tp, head in heads.items() if head.leader_epoch != UNKNOWN_EPOCH}
    ends = await session.epoch_ends(epochs) if epochs else {}
    return {tp: Log(start=log.start, end=log.end, epoch_end=ends.get(tp)) for tp, log in ranges.items()}
