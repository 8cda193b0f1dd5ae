"""Ours: a SparkSink with a ParquetTable and all its defaults, and the one member of a fresh group.

In the Python API, not by `sarameya run`: a service does not end where its topic does. Here each claim does, as
availableNow has it for Spark: at the end that the topic had at the beginning. What the sink has collected by then
lands at once, as at the end of any claim.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import trio
from pyspark.sql import SparkSession

from bench.land.programs.landing import Source, Task, main
from sarameya import Claim, Config, ConsumerGroup, MessageBatch, Session
from sarameya_handlers import ParquetTable, SparkSink
from sarameya_handlers.spark import Table
from sarameya_handlers.spark.engine import Engine


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

    def __init__(self, table: Table, ends: tuple[int, ...], group: ConsumerGroup, spark: SparkSession | Engine) -> None:
        super().__init__(table, spark=spark)
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


async def _land(task: Task, spark: SparkSession, source: Source, table: Path) -> None:
    config = Config(offset_initial="oldest")
    async with (
        ConsumerGroup([task.bootstrap], f"{task.group}-{source.topic}", config) as group,
        BoundedSink(ParquetTable(table), source.ends, group, spark) as sink,
    ):
        await group.consume([source.topic], sink)


if __name__ == "__main__":
    _task = Task.of_command_line()
    main(_task, lambda *what: trio.run(_land, _task, *what))
