"""Who lands what partitions hand in: as many with one job of Spark's as the table takes, and no more at once than Spark
is to have. Owns the flushes; what a partition collects, and what it does about the outcome, is `partition.py`'s.

    Partition.land ──ticket──► waiting ──(a short while, for others that are due)──► flush: land, read back ──► ticket

A flush serves several partitions, so it runs in the sink's task, not in any of theirs. One of them that is cancelled
takes the flush with it: the others find that their links are absent, or theirs, and try again.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self

import attrs
import trio

from sarameya import Session, TableGrown
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.engines.engine import Engine
from sarameya_handlers.spark.errors import SparkGoneError, cause_of
from sarameya_handlers.spark.landing import OnPhase, Try, found, land
from sarameya_handlers.spark.poison.poison_search import Poison, find_poison
from sarameya_handlers.spark.tables.table import Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

GATHER = 0.05
"""Seconds that a flush waits for other partitions, which are asked for what is ripe meanwhile."""
ABANDON = 2.0
"""Seconds that a cancelled partition waits for its flush to be over: Spark is told, and must not hold a rebalance."""
REST_WITHIN = 5.0
"""Seconds that whoever gives up chains waits at most for the table to have written down where they end."""


@attrs.frozen(slots=True)
class Result:
    """What has come of a try. `links`: what the table has from the number on that was asked for; None if that could not
    be found out, and `error` says why. Else `error` is what went wrong, which says nothing about the outcome."""

    links: Sequence[Link] | None
    error: Exception | None
    seconds: float
    """How long the flush took."""
    was_shared: bool = False
    """Whether others were tried with it, so that `error` may be theirs."""


@attrs.define(slots=True, eq=False)
class _Ticket:
    try_: Try
    since: int
    result: Result | None = None
    done: trio.Event = attrs.field(factory=trio.Event)
    flush: trio.CancelScope | None = None


class Lander:
    """Lands in one table, as long as it is entered. `land` hands in and waits."""

    def __init__(self, engine: Engine, table: Table, shape: Shape, *, max_flushes: int, on_phase: OnPhase) -> None:
        self._engine = engine
        self._table = table
        self._shape = shape
        self._on_phase = on_phase
        self._max_flushes = max_flushes
        self._slots = trio.CapacityLimiter(max_flushes)
        self._flushes = 0
        self._waiting: deque[_Ticket] = deque()
        self._wake = trio.Event()
        self._nudged: set[Callable[[], None]] = set()
        self._seconds = 0.0
        self._has_warned = False

    @property
    def usual_seconds(self) -> float:
        """How long a landing takes of late; 0 as long as none has ended."""
        return self._seconds

    @property
    def table_name(self) -> str:
        """Name of the table, as users write it."""
        return self._table.name

    @property
    def turns_before(self) -> int:
        """How many landings, one after the other, are before one that is handed in now: those that wait or have begun
        and do not go at once with it."""
        waiting = len(self._waiting) // self._table.landings_a_job
        return (self._flushes + waiting) // self._max_flushes

    def warn_of_growth(self, session: Session) -> None:
        """Log and notify, once, that the table has grown so that it slows landings, and what to run."""
        if self._table.growth and not self._has_warned:
            self._has_warned = True
            logger.warning("%s: %s", self._table.name, self._table.growth)
            session.tell(TableGrown(table=self._table.name, what=self._table.growth))

    def on_flush(self, nudge: Callable[[], None]) -> Callable[[], None]:
        """`nudge` is called when a flush is about to begin: what is ripe may land along. Returns what ends that."""
        self._nudged.add(nudge)
        return partial(self._nudged.discard, nudge)

    async def land(self, try_: Try, since: int) -> Result:
        """Try this link; the chain's links from number `since` on, afterwards.

        Cancelled, it is over within ABANDON; what is known then of whether the link has landed is told to the log, and
        the next owner of the partition asks the table.
        """
        ticket = _Ticket(try_, since)
        self._waiting.append(ticket)
        self._wake.set()
        try:
            await ticket.done.wait()
        except trio.Cancelled:
            await self._abandon(ticket)
            raise
        assert ticket.result is not None
        return ticket.result

    async def find(self, key: ChainKey, since: int) -> Result:
        """The chain's links from number `since` on."""
        began = trio.current_time()
        links, error = await self._links({key: since}, f"found-{key}")
        return Result(links.get(key), error, trio.current_time() - began)

    async def find_poison(self, one: Try) -> Poison:
        """Which of the records of a link that failed to land Spark can make nothing of, or the table does not take.
        Raises LandingError, and what keeps it from being found out."""

        def work(spark: SparkSession, check: Callable[[], None]) -> Poison:
            table, evaluate = self._table, self._table.evaluator(spark)
            return find_poison(spark, check, one=one, staging=table.staging, shape=self._shape, evaluate=evaluate)

        return await self._engine.run(work, tag=f"{one.link.attempt}-poison")

    async def heads(self, keys: Sequence[ChainKey]) -> dict[ChainKey, Link]:
        """The last link of each of these chains that has begun."""
        return await self._engine.run(lambda spark, _: self._table.heads(spark, keys), tag=f"heads-{keys[0]}")

    async def __aenter__(self) -> Self:
        self._nursery_manager = trio.open_nursery()
        self._nursery = await self._nursery_manager.__aenter__()
        self._nursery.start_soon(self._serve)
        return self

    async def __aexit__(self, *_: object) -> None:
        """What is on its way is cancelled."""
        self._nursery.cancel_scope.cancel()
        # Not told of the body's own failure, which it would wrap in a group.
        await self._nursery_manager.__aexit__(None, None, None)

    async def rest(self, heads: Sequence[Link]) -> None:
        """These chains are given up in order. Over within REST_WITHIN, and in half of the time that there is: Spark may
        be away. What goes wrong is told, and hurts nobody for as long as the table keeps the links themselves."""
        if not self._table.states_heads:
            return
        over, scope = trio.Event(), trio.CancelScope()
        # In the sink's task, like flushes: Spark takes its time to be cancelled, too.
        self._nursery.start_soon(self._rest, heads, scope, over)
        now = trio.current_time()
        try:
            with trio.move_on_at(min(now + REST_WITHIN, (now + trio.current_effective_deadline()) / 2)) as patience:
                await over.wait()
        finally:
            scope.cancel()
        if patience.cancelled_caught:
            logger.info(
                "%s was not told in time that chains rest; it is not needed as long as it keeps their links",
                self._table.name,
            )

    async def _rest(self, heads: Sequence[Link], scope: trio.CancelScope, over: trio.Event) -> None:
        with scope:
            try:
                await self._engine.run(lambda spark, _: self._table.rest(spark, heads), tag=f"rest-{heads[0].attempt}")
            except SparkGoneError as gone:
                logger.info("%s was not told that chains rest: %s", self._table.name, gone)
            except Exception as error:  # noqa: BLE001 - whatever it is: the heads are in the table
                logger.warning("%s was not told that chains rest: %s", self._table.name, cause_of(error))
            over.set()

    async def _serve(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                while not self._waiting:
                    self._wake = trio.Event()
                    await self._wake.wait()
                await self._gather()
                # A slot first: while there is none, more come and go along.
                await self._slots.acquire_on_behalf_of(slot := object())
                if tickets := self._next():
                    # Here, not in its task: a ticket may be abandoned before that begins.
                    scope = trio.CancelScope()
                    for ticket in tickets:
                        ticket.flush = scope
                    self._flushes += 1
                    nursery.start_soon(self._flush, tickets, slot, scope)
                else:
                    self._slots.release_on_behalf_of(slot)

    async def _gather(self) -> None:
        if self._table.landings_a_job > 1:
            for nudge in tuple(self._nudged):
                nudge()
            await trio.sleep(GATHER)

    def _next(self) -> list[_Ticket]:
        """As many as may share a job, in the order in which they came."""
        taken: list[_Ticket] = []
        while self._waiting and len(taken) < self._table.landings_a_job:
            if taken and (taken[0].try_.is_alone or self._waiting[0].try_.is_alone):
                break
            taken.append(self._waiting.popleft())
        return taken

    async def _flush(self, tickets: list[_Ticket], slot: object, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await self._flush_once(tickets)
        finally:
            self._flushes -= 1
            self._slots.release_on_behalf_of(slot)
            for ticket in tickets:
                ticket.result = ticket.result or Result(None, None, 0.0)
                ticket.done.set()

    async def _flush_once(self, tickets: list[_Ticket]) -> None:
        began = trio.current_time()
        tries = [ticket.try_ for ticket in tickets]
        tag = tries[0].link.attempt
        error: Exception | None = None
        work = partial(land, tries=tries, table=self._table, shape=self._shape, on_phase=self._on_phase)
        try:
            await self._engine.run(work, tag=tag)
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is told, and the table is asked all the same
            error = raised
        since = {ticket.try_.link.key: ticket.since for ticket in tickets}
        links, unknown = await self._links(since, f"{tag}-found")
        seconds = trio.current_time() - began
        if error is None:
            self._seconds = max(seconds, (self._seconds + seconds) / 2)
        if unknown is not None:
            # It may have landed, whatever went wrong before: that decides nothing.
            unknown.__context__ = unknown.__context__ or error
        for ticket in tickets:
            found_links = links.get(ticket.try_.link.key)
            ticket.result = Result(found_links, unknown or error, seconds, was_shared=len(tickets) > 1)

    async def _links(
        self, since: Mapping[ChainKey, int], tag: str
    ) -> tuple[Mapping[ChainKey, Sequence[Link]], Exception | None]:
        try:
            return await self._engine.run(partial(found, table=self._table, since=since), tag=tag), None
        except Exception as error:  # noqa: BLE001 - as above: then nothing is known
            return {}, error

    async def _abandon(self, ticket: _Ticket) -> None:
        """Nobody waits for it any more: it is not begun, or its flush is cancelled."""
        if ticket.flush is None:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            return
        ticket.flush.cancel()
        with trio.CancelScope(shield=True), trio.move_on_after(ABANDON):
            await ticket.done.wait()
        link, links = ticket.try_.link, ticket.result.links if ticket.result else None
        if links is None:
            logger.warning(
                "%s, attempt %s, was cancelled on its way: whether it lands is not known; the next owner of the "
                "partition asks the table",
                link,
                link.attempt,
            )
            return
        outcome = "has landed" if any(one.attempt == link.attempt for one in links) else "has not landed"
        logger.info("%s, attempt %s, was cancelled: it %s", link, link.attempt, outcome)


def wall_clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
