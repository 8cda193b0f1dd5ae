"""Sarameya's program: a SparkSink, as the only member of a fresh group.

It uses the Python API, not `sarameya run`, since a service does not stop at the end of its topic. Here each claim stops
at the log end that the topic had at the start, as availableNow does for Spark. The records that the sink has collected
by then land at once, as at the end of any claim.

The sink's engine starts Spark, as in a service. In a Spark that was started elsewhere, the sink would leave Delta's
commits to Spark.
"""

from __future__ import annotations

from typing import Any, cast

import trio

from bench.common.events import parse
from bench.land.programs.landing import TABLE, WARM, Outcome, Source, Stopwatch, Task, jvm_pid, options
from bench.land.programs.stages import StageClock, TimedEngine, timed
from sarameya import Claim, Config, ConsumerGroup, MessageBatch, Session
from sarameya_handlers import ParquetTable, SparkOptions, SparkSink, StoreOptions
from sarameya_handlers.spark import Table
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.engines.engine import SparkEngine

FETCH_BUFFER_BYTES = 512 * 2**20
"""Byte budget for the records that four partitions have collected, and those that are landing (Claim.has_room)."""


class UpTo:
    """A claim that stops at an offset."""

    def __init__(self, claim: Claim, end: int) -> None:
        self._claim = claim
        self._batches = claim.batches()
        self._end = end
        self._position = claim.initial_offset

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claim, name)

    def batches(self) -> UpTo:
        return self

    def __aiter__(self) -> UpTo:
        return self

    # Not a generator: the sink cancels a step when it is time to land, and a generator could not continue after that.
    async def __anext__(self) -> MessageBatch:
        if self._position >= self._end:
            raise StopAsyncIteration
        batch = await anext(self._batches)
        self._position = batch.next_offset
        return batch


class BoundedSink(SparkSink):
    """Lands each partition up to its offset in `ends`, then closes the group."""

    def __init__(self, table: Table, ends: tuple[int, ...], group: ConsumerGroup, **options: Any) -> None:
        super().__init__(table, **options)
        self._ends = dict(enumerate(ends))
        self._group = group
        self._done = trio.Event()

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        await super().consume_claim(session, cast(Claim, UpTo(claim, self._ends[claim.partition])))
        del self._ends[claim.partition]
        if not self._ends:
            self._done.set()
            self._group.close_nowait()
        # The first claim that returns ends the session, so each one waits for the others.
        await self._done.wait()


async def _main(task: Task) -> Outcome:
    """Land the first topic, then the other one with a running clock."""
    spark = options(task)
    # Keeps one Spark running for both sinks, whose own engines share it.
    async with SparkEngine(spark) as engine:
        pid = await engine.run(lambda session, _: jvm_pid(session), tag="pid")
        await _land(task, spark, task.warm, task.place(WARM))
        stopwatch = Stopwatch(pid)
        clock = await _land(task, spark, task.full, task.place(TABLE))
        return stopwatch.outcome(clock.stages(), clock.flushes)


async def _land(task: Task, spark: SparkOptions, source: Source, place: str) -> StageClock:
    clock = StageClock()
    config = Config(offset_initial="oldest", fetch_buffer_bytes=FETCH_BUFFER_BYTES)
    store = {"store": StoreOptions(trusted=True)} if task.store else {}
    table = timed(DeltaTable if task.kind == "delta" else ParquetTable, clock)(place, **store)
    engine = TimedEngine(SparkEngine(spark), clock)
    async with (
        ConsumerGroup([task.bootstrap], f"{task.group}-{source.topic}", config) as group,
        BoundedSink(table, source.ends, group, transform=parse if task.is_parsed else None, spark=engine) as sink,
    ):
        await group.consume([source.topic], sink)
    return clock


if __name__ == "__main__":
    print(trio.run(_main, Task.of_command_line()).to_json(), flush=True)
