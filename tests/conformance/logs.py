"""A log of three partitions without a broker, and sinks that land it one session after the other. On the loop alone."""

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
from tests.conformance.proof import offsets, prove_audit, prove_chain, prove_rows
from tests.handlers.kit import FakeClaim, FakeSession, batch

RECORDS = 15
"""In each partition's log: a landing and a half."""
MOST_ROWS = 10
NO_SPARK = cast("Any", None)


class Unwanted(BaseException):
    """Raised by a check in cancelled work. Like trio's own exception, nobody catches it."""


class LoopEngine(Engine):
    """Runs work on the loop: no threads, so that each step is the same each time. `on_check` is called at each of the
    work's own checkpoints, and may cancel who waits for it. A landing begins after `seconds`; `landing` of them are at
    it, `cancelled` did not come to that. While `is_gone` Spark is looked for as the real ones do."""

    def __init__(self, on_check: Callable[[], None] = lambda: None, *, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.is_gone = False
        self.landing = self.cancelled = 0
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
        await self._look_for_spark()
        if getattr(getattr(work, "func", None), "__name__", "") == "flush":
            await self._take_time()
        try:
            result = work(None, self._check)
        except Unwanted:
            await trio.lowlevel.checkpoint()
            raise AssertionError("who is unwanted is cancelled") from None
        await trio.lowlevel.checkpoint()  # cancelled here, it is done, and nobody hears of it
        return result

    async def _look_for_spark(self) -> None:
        deadline = trio.current_time() + RETURN_TIMEOUT
        while self.is_gone:
            if trio.current_time() >= deadline:
                raise SparkGoneError("Spark Connect's server does not answer", begun=False)
            await trio.sleep(1)

    async def _take_time(self) -> None:
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
            raise Unwanted


@attrs.define
class World:
    """A table, so many partitions, and what is committed of them. `commits` says whether marks come to be."""

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
        """Run a session in which all logs are read to their ends; commit the marks when it ends.

        `scope_of` returns the cancel scope of a partition's claim. The session ends once all is read or, if it `waits`,
        has landed.
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
                        nursery.start_soon(_end_when_landed, claim, session)
                    else:
                        claim.end()
                    nursery.start_soon(_within, scope, sink, session, claim)
        finally:
            self._commit(session)

    def _commit(self, session: FakeSession) -> None:
        for topic, partition, offset in session.marks if self.commits else ():
            where = TopicPartition(topic, partition)
            self.committed[where] = CommittedOffset(offset, session.metadata[where])

    async def land_the_rest(self) -> None:
        """Land the rest as a new owner without faults, and prove that each record is there once."""
        engine = LoopEngine()
        async with self.sink(engine) as sink:
            await self.session(sink)
        self.proves()

    def proves(self) -> None:
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


async def _end_when_landed(claim: FakeClaim, session: FakeSession) -> None:
    while (*claim.topic_partition, RECORDS) not in session.marks:
        await trio.sleep(1)
    claim.end()


async def _within(scope: trio.CancelScope, sink: SparkSink, session: FakeSession, claim: FakeClaim) -> None:
    with scope:
        await sink.consume_claim(session, claim)
