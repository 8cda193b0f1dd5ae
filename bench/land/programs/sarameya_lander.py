"""Ours: a SparkSink, and the one member of a fresh group.

In the Python API, not by `sarameya run`: a service does not end where its topic does. Here each claim does, as
availableNow has it for Spark: at the end that the topic had at the beginning. What the sink has collected by then
lands at once, as at the end of any claim.

Spark is started by the sink's engine, as in a service: where it is somebody else's, Delta's commits are left to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import trio

from bench.common.events import parse
from bench.land.programs.landing import TABLE, Outcome, Source, Stopwatch, Task, jvm_pid, options
from bench.land.programs.stages import StageClock, TimedEngine, timed
from sarameya import Claim, Config, ConsumerGroup, MessageBatch, Session
from sarameya_handlers import ParquetTable, SparkOptions, SparkSink
from sarameya_handlers.spark import Table
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.engines.engine import SparkEngine

FETCH_BUFFER_BYTES = 512 * 2**20
"""For what four partitions have collected, and what of them is landing: see Claim.has_room."""


class UpTo:
    """A claim whose batches end at an offset."""

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

    # Not a generator, which could not go on once the sink, whose time has come to land, has cancelled a step.
    async def __anext__(self) -> MessageBatch:
        if self._position >= self._end:
            raise StopAsyncIteration
        batch = await anext(self._batches)
        self._position = batch.next_offset
        return batch


class BoundedSink(SparkSink):
    """Lands each claim up to its end in `ends`, by partition; once all have, it closes the group."""

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
        # A claim that returned earlier would end the session for the others.
        await self._done.wait()


async def _main(task: Task) -> Outcome:
    """Land the one topic, then the other with the clock running."""
    spark = options(task)
    # One Spark for both sinks, which enter it with engines of their own.
    async with SparkEngine(spark) as engine:
        pid = await engine.run(lambda session, _: jvm_pid(session), tag="pid")
        await _land(task, spark, task.warm, Path(task.directory, "warm"))
        stopwatch = Stopwatch(pid)
        clock = await _land(task, spark, task.full, Path(task.directory, TABLE))
        return stopwatch.outcome(clock.stages(), clock.flushes)


async def _land(task: Task, spark: SparkOptions, source: Source, place: Path) -> StageClock:
    clock = StageClock()
    config = Config(offset_initial="oldest", fetch_buffer_bytes=FETCH_BUFFER_BYTES)
    table = timed(DeltaTable if task.kind == "delta" else ParquetTable, clock)(place)
    engine = TimedEngine(SparkEngine(spark), clock)
    async with (
        ConsumerGroup([task.bootstrap], f"{task.group}-{source.topic}", config) as group,
        BoundedSink(table, source.ends, group, transform=parse if task.is_parsed else None, spark=engine) as sink,
    ):
        await group.consume([source.topic], sink)
    return clock


if __name__ == "__main__":
    print(trio.run(_main, Task.of_command_line()).to_json(), flush=True)
