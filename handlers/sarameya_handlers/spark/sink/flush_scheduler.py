"""Scheduler of a table's flushes.

It combines as many partitions in one Spark job as the table allows, and limits the number of concurrent flushes.
partition_lander.py collects the records, and handles the outcome.

    PartitionLander ──append──► waiting ──(a short while, for other partitions)──► flush: land, read back ──► outcome

A flush serves several partitions, so it runs in the sink's task, not in theirs. If one partition's task is cancelled,
its flush is cancelled, too: the other partitions read from the table whether their links have landed, and retry if not.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from sarameya import Session, TableGrown
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.engines.engine import Engine
from sarameya_handlers.spark.errors import SparkGoneError, cause_of
from sarameya_handlers.spark.poison.poison_search import Poison, SearchMemory, find_poison
from sarameya_handlers.spark.sink.flush import OnPhase, flush, read_links
from sarameya_handlers.spark.sink.flush_slots import FlushSlots
from sarameya_handlers.spark.tables.table import PendingLink, Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

GATHER_SECONDS = 0.05
"""Seconds for which a flush waits for other partitions that may be flushed early with it."""
ABANDON_AFTER = 2.0
"""Maximum seconds for which a cancelled partition waits for its flush to end: Spark must not delay a rebalance."""
REST_TIMEOUT = 5.0
"""Maximum seconds to wait until the table has stored the heads of revoked partitions."""


@attrs.frozen(slots=True)
class FlushResult:
    """Outcome of an attempt.

    Attributes:
        links: The table's links from the requested number on; None if they could not be read.
        error: Without `links`, the reason. With `links`, the error of the attempt, which may have landed nevertheless.
    """

    links: Sequence[Link] | None
    error: Exception | None
    seconds: float
    """Duration of the flush."""
    was_shared: bool = False
    """True if other partitions shared the flush. Then they may have caused `error`."""


@attrs.define(slots=True, eq=False)
class _Submission:
    """A link that waits for a flush, or is part of one."""

    pending: PendingLink
    since: int
    """Number of the first link to read back."""
    result: FlushResult | None = None
    done: trio.Event = attrs.field(factory=trio.Event)
    flush: trio.CancelScope | None = None
    """Scope of its flush; None while it waits."""


class FlushScheduler:
    """Combines and runs the flushes of one table.

    Args:
        engine: Runs the flushes.
        table: The table.
        shape: Converts records to rows.
        nursery: Flushes run here, so that they outlive the tasks of partitions.
        slots: Slots for the concurrent flushes of all tables of the sink.
        on_phase: Called with each phase of a flush.
    """

    def __init__(
        self,
        engine: Engine,
        table: Table,
        shape: Shape,
        *,
        nursery: trio.Nursery,
        slots: FlushSlots,
        on_phase: OnPhase,
    ) -> None:
        self._engine = engine
        self._table = table
        self._shape = shape
        self._on_phase = on_phase
        self._nursery = nursery
        self._slots = slots
        self._waits_for_slot = False
        self.has_failed = False
        """True if the last attempt has failed."""
        self._waiting: deque[_Submission] = deque()
        self._wake = trio.Event()
        self._nudges: set[Callable[[], None]] = set()
        self._searches: defaultdict[ChainKey, SearchMemory] = defaultdict(SearchMemory)
        self._seconds = 0.0
        self._has_warned = False

    @property
    def table_name(self) -> str:
        """Name of the table."""
        return self._table.name

    @property
    def usual_seconds(self) -> float:
        """Recent duration of a flush; 0 before the first one has ended."""
        return self._seconds

    @property
    def flushes_ahead(self) -> int:
        """Number of successive flushes that an attempt submitted now has to wait for."""
        waiting = len(self._waiting) // self._table.landings_per_job
        return self._slots.flushes_ahead(max(waiting - self._waits_for_slot, 0))

    def warn_of_growth(self, session: Session) -> None:
        """Log and notify, once, that the table's growth slows flushes, and the remedy."""
        if self._table.growth and not self._has_warned:
            self._has_warned = True
            logger.warning("%s: %s", self._table.name, self._table.growth)
            session.notify(TableGrown(table=self._table.name, what=self._table.growth))

    def report_requests(self, session: Session) -> None:
        """Notify of the requests to the table's object store since the last call."""
        if used := self._table.take_requests():
            session.notify(used)

    def on_flush(self, nudge: Callable[[], None]) -> Callable[[], None]:
        """Call `nudge` before each flush, so that more partitions join it. Return a function that ends these calls."""
        self._nudges.add(nudge)
        return partial(self._nudges.discard, nudge)

    async def append(self, pending: PendingLink, since: int) -> FlushResult:
        """Attempt this link, and return the chain's links from number `since` on.

        If cancelled, this ends within ABANDON_AFTER, and logs whether the link has landed, if that is known. The
        partition's next owner reads the table.
        """
        submission = _Submission(pending, since)
        self._waiting.append(submission)
        self._wake.set()
        try:
            await submission.done.wait()
        except trio.Cancelled:
            await self._abandon(submission)
            raise
        assert submission.result is not None
        return submission.result

    async def find_links(self, key: ChainKey, since: int) -> FlushResult:
        """Return the chain's links from number `since` on."""
        started_at = trio.current_time()
        links, error = await self._read_links({key: since}, f"found-{key}")
        return FlushResult(links.get(key), error, trio.current_time() - started_at)

    async def find_poison(self, pending: PendingLink) -> Poison:
        """Find the records of a failed link that cannot be written.

        Raises:
            LandingError: The cause is not a record, or the search failed.
        """

        def work(spark: SparkSession, check: Callable[[], None]) -> Poison:
            table, evaluate = self._table, self._table.evaluator(spark)
            return find_poison(
                spark,
                check,
                pending=pending,
                staging=table.staging,
                shape=self._shape,
                evaluate=evaluate,
                memory=self._searches[pending.link.key],
            )

        return await self._engine.run(work, tag=f"{pending.link.attempt}-poison")

    async def heads(self, keys: Sequence[ChainKey]) -> dict[ChainKey, Link]:
        """Return the last link of each of these chains that has one."""
        return await self._engine.run(lambda spark, _: self._table.heads(spark, keys), tag=f"heads-{keys[0]}")

    def start(self) -> None:
        """Start to flush, in the nursery."""
        self._nursery.start_soon(self._serve)

    async def rest(self, heads: Sequence[Link]) -> None:
        """Store the heads of the chains of revoked partitions in the table.

        Ends within REST_TIMEOUT, and within half of the remaining time, since Spark may not respond. Failures are only
        logged: they are harmless as long as the table keeps the links themselves.
        """
        if not self._table.states_heads:
            return
        done, scope = trio.Event(), trio.CancelScope()
        # In the sink's task, like flushes: this task must not wait until Spark's work is cancelled.
        self._nursery.start_soon(self._rest, heads, scope, done)
        now = trio.current_time()
        try:
            with trio.move_on_at(min(now + REST_TIMEOUT, (now + trio.current_effective_deadline()) / 2)) as timeout:
                await done.wait()
        finally:
            scope.cancel()
        if timeout.cancelled_caught:
            logger.info(
                "%s has not stored the heads of its chains in time; harmless unless the table's history expires before "
                "the next start",
                self._table.name,
            )

    async def _rest(self, heads: Sequence[Link], scope: trio.CancelScope, done: trio.Event) -> None:
        with scope:
            try:
                await self._engine.run(lambda spark, _: self._table.rest(spark, heads), tag=f"rest-{heads[0].attempt}")
            except SparkGoneError as error:
                logger.info("%s has not stored the heads of its chains: %s", self._table.name, error)
            except Exception as error:  # noqa: BLE001 - harmless: the links themselves are in the table
                logger.warning("%s has not stored the heads of its chains: %s", self._table.name, cause_of(error))
            done.set()

    async def _serve(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                while not self._waiting:
                    self._wake = trio.Event()
                    await self._wake.wait()
                await self._gather()
                # A slot first: while all are taken, more partitions are submitted and join the flush.
                self._waits_for_slot = True
                await self._slots.acquire(slot := object(), has_failed=self.has_failed)
                self._waits_for_slot = False
                if submissions := self._next():
                    # Here, not in the flush's task: an attempt may be abandoned before that task starts.
                    scope = trio.CancelScope()
                    for submission in submissions:
                        submission.flush = scope
                    nursery.start_soon(self._flush, submissions, slot, scope)
                else:
                    self._slots.release(slot)

    async def _gather(self) -> None:
        if self._table.landings_per_job > 1:
            for nudge in tuple(self._nudges):
                nudge()
            await trio.sleep(GATHER_SECONDS)

    def _next(self) -> list[_Submission]:
        """Take as many attempts as may share a job, in order of arrival."""
        taken: list[_Submission] = []
        while self._waiting and len(taken) < self._table.landings_per_job:
            if taken and (taken[0].pending.is_alone or self._waiting[0].pending.is_alone):
                break
            taken.append(self._waiting.popleft())
        return taken

    async def _flush(self, submissions: list[_Submission], slot: object, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await self._flush_once(submissions)
        finally:
            self._slots.release(slot)
            for submission in submissions:
                submission.result = submission.result or FlushResult(None, None, 0.0)
                submission.done.set()

    async def _flush_once(self, submissions: list[_Submission]) -> None:
        started_at = trio.current_time()
        pending = [submission.pending for submission in submissions]
        tag = pending[0].link.attempt
        error: Exception | None = None
        work = partial(flush, pending=pending, table=self._table, shape=self._shape, on_phase=self._on_phase)
        try:
            await self._engine.run(work, tag=tag)
        except Exception as raised:  # noqa: BLE001 - any error is returned, and the table is read in any case
            error = raised
        since = {submission.pending.link.key: submission.since for submission in submissions}
        links, read_error = await self._read_links(since, f"{tag}-found")
        seconds = trio.current_time() - started_at
        self.has_failed = (read_error or error) is not None
        if error is None:
            self._seconds = max(seconds, (self._seconds + seconds) / 2)
        if read_error is not None:
            # The outcome is unknown: links may have landed in spite of the earlier error.
            read_error.__context__ = read_error.__context__ or error
        for submission in submissions:
            found_links = links.get(submission.pending.link.key)
            submission.result = FlushResult(found_links, read_error or error, seconds, was_shared=len(submissions) > 1)

    async def _read_links(
        self, since: Mapping[ChainKey, int], tag: str
    ) -> tuple[Mapping[ChainKey, Sequence[Link]], Exception | None]:
        try:
            return await self._engine.run(partial(read_links, table=self._table, since=since), tag=tag), None
        except Exception as error:  # noqa: BLE001 - returned: the outcome is unknown then
            return {}, error

    async def _abandon(self, submission: _Submission) -> None:
        """Abandon an attempt whose partition no longer waits: remove it from the queue, or cancel its flush."""
        if submission.flush is None:
            if submission in self._waiting:
                self._waiting.remove(submission)
            return
        submission.flush.cancel()
        with trio.CancelScope(shield=True), trio.move_on_after(ABANDON_AFTER):
            await submission.done.wait()
        link, links = submission.pending.link, submission.result.links if submission.result else None
        if links is None:
            logger.warning(
                "%s, attempt %s, was cancelled while Spark landed it, and may land or not; the next owner of the "
                "partition reads the table",
                link,
                link.attempt,
            )
            return
        outcome = "has landed" if any(found.attempt == link.attempt for found in links) else "has not landed"
        logger.info("%s, attempt %s, was cancelled: it %s", link, link.attempt, outcome)


def wall_clock() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000
