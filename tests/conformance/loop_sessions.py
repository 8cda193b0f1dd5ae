"""A log of three partitions without a broker, and sinks that land it, session after session, without threads."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Self, cast

import attrs
import trio

from sarameya import CommittedOffset, TopicPartition
from sarameya_handlers import SparkSink
from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.spark.engines.engine import Engine
from sarameya_handlers.spark.engines.keeper import RETURN_TIMEOUT
from sarameya_handlers.spark.errors import SparkGoneError
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Shape, Table
from tests.conformance.invariants import offsets, prove_audit, prove_chain, prove_rows
from tests.handlers.kit import FakeClaim, FakeSession, batch

RECORDS = 15
"""Number of records in each partition's log: one and a half batches."""
MOST_ROWS = 10
NO_SPARK = cast("Any", None)


class WorkCancelled(BaseException):
    """Raised at a checkpoint of cancelled work. A BaseException like trio's, so that `except Exception` misses it."""


class LoopEngine(Engine):
    """An engine that runs work in the event loop, without threads, so that each run has the same steps.

    Args:
        on_check: called at each checkpoint of the work; it may cancel the task that waits for the work.
        seconds: the time that each landing waits before it begins.
    """

    def __init__(self, on_check: Callable[[], None] = lambda: None, *, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.is_gone = False
        """True while Spark is down: work waits for its return, as in the Spark engines."""
        self.landing = self.cancelled = 0
        """Number of landings that wait for `seconds` now, and of landings that were cancelled in this wait."""
        self._on_check = on_check

    @property
    def max_jobs(self) -> int:
        return 2

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def run(self, work: Callable[[Any, Any], Any], *, tag: str) -> Any:
        await trio.lowlevel.checkpoint()
        await self._await_spark()
        if getattr(getattr(work, "func", None), "__name__", "") == "flush":
            await self._await_start()
        try:
            result = work(None, self._check)
        except WorkCancelled:
            await trio.lowlevel.checkpoint()
            raise AssertionError("the task is cancelled, so its checkpoint must raise") from None
        await trio.lowlevel.checkpoint()  # if cancelled here, the work is done, but the caller does not learn of it
        return result

    async def _await_spark(self) -> None:
        deadline = trio.current_time() + RETURN_TIMEOUT
        while self.is_gone:
            if trio.current_time() >= deadline:
                raise SparkGoneError("Spark Connect's server does not answer", begun=False)
            await trio.sleep(1)

    async def _await_start(self) -> None:
        self.landing += 1
        try:
            if self.seconds:
                await trio.sleep(self.seconds)
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            self.landing -= 1

    def _check(self) -> None:
        self._on_check()
        if trio.current_effective_deadline() == -inf:
            raise WorkCancelled


@attrs.define
class World:
    """A table, a log of some partitions, and their committed offsets. Without `commits` marks are never committed."""

    table: Table
    partitions: int = 3
    commits: bool = True
    shape: Shape = attrs.field(factory=Shaping)
    committed: dict[TopicPartition, CommittedOffset] = attrs.field(factory=dict)

    def sink(self, engine: Engine, **options: Any) -> SparkSink:
        return SparkSink(self.table, spark=engine, shape=self.shape, max_rows=MOST_ROWS, **options)

    async def session(
        self,
        sink: SparkSink,
        *,
        scope_of: Callable[[int], trio.CancelScope] | None = None,
        waits: bool = False,
    ) -> None:
        """Run a session that reads all logs to their ends, and commit its marks at the end.

        Args:
            sink: the handler.
            scope_of: returns the cancel scope of a partition's claim.
            waits: whether claims stop only after everything has landed, not as soon as everything is read.
        """
        session = FakeSession(log=(0, RECORDS))
        partitions = [TopicPartition("orders", number) for number in range(self.partitions)]
        try:
            await sink.setup(session)
            await sink.partitions_assigned(session, partitions)
            async with trio.open_nursery() as nursery:
                for partition in partitions:
                    start = await sink.start_offset(partition, self.committed.get(partition))
                    claim = _claim(partition.partition, 0 if start is None else start.offset)
                    scope = scope_of(partition.partition) if scope_of else trio.CancelScope()
                    if waits:
                        nursery.start_soon(_stop_when_landed, claim, session)
                    else:
                        claim.end()
                    nursery.start_soon(_consume, scope, sink, session, claim)
        finally:
            self._commit(session)

    def _commit(self, session: FakeSession) -> None:
        for topic, partition, offset in session.marks if self.commits else ():
            tp = TopicPartition(topic, partition)
            self.committed[tp] = CommittedOffset(offset, session.metadata[tp])

    async def land_the_rest(self) -> None:
        """Land the remaining records as a new owner without faults, and check that each record is in the table once."""
        engine = LoopEngine()
        async with self.sink(engine) as sink:
            await self.session(sink)
        self.prove()

    def prove(self) -> None:
        """Check that the table has each record once."""
        keys = [ChainKey("sarameya", "orders", number) for number in range(self.partitions)]
        for key in keys:
            prove_chain(self.table, None, key, RECORDS)
        prove_rows(self.table, None, offsets(dict.fromkeys(keys, RECORDS)))
        prove_audit(self.table, None)

    @property
    def leftovers(self) -> list[str]:
        return [leftover.name for leftover in self.table.leftovers(NO_SPARK)]

    def sweep(self) -> None:
        for leftover in self.table.leftovers(NO_SPARK):
            self.table.remove(NO_SPARK, leftover)


def _claim(partition: int, position: int) -> FakeClaim:
    claim = FakeClaim(position, partition=partition)
    for first in range(position, RECORDS, 5):
        claim.send(batch(first, min(5, RECORDS - first), partition=partition))
    return claim


async def _stop_when_landed(claim: FakeClaim, session: FakeSession) -> None:
    while (*claim.topic_partition, RECORDS) not in session.marks:
        await trio.sleep(1)
    claim.end()


async def _consume(scope: trio.CancelScope, sink: SparkSink, session: FakeSession, claim: FakeClaim) -> None:
    with scope:
        await sink.consume_claim(session, claim)
