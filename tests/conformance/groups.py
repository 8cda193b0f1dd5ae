"""Groups of members that land in Parquet in this process and in virtual time. Only Spark and the network are fake."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from sarameya import CommittedOffset, Config, GroupAdmin, TopicPartition, log_event
from sarameya.embedded import EmbeddedCluster
from sarameya_handlers import ParquetTable, SparkSink
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Leftover, Shape, Table
from tests.conformance.brokers import GROUP, SINK, TOPIC
from tests.conformance.invariants import offsets, prove_audit, prove_chain, prove_rows
from tests.conformance.loop_sessions import NO_SPARK, LoopEngine
from tests.group.kit import Running, start_member


class FaultyTable(Table):
    """A Parquet table whose landings and reads can be made to fail: before the work, after it, or instead of it."""

    def __init__(self, table: ParquetTable) -> None:
        self._table = table
        self.landings_per_job = table.landings_per_job
        self.needs_spark = False
        self.land_error: Callable[[], Exception | None] = lambda: None
        """Called before each landing. Returns the exception to raise instead, or None."""
        self.lost_answers = 0
        """Number of next landings that succeed but raise."""
        self.failing_reads = 0
        """Number of next calls of `links` that fail."""
        self.heads_error: Callable[[], Exception | None] = lambda: None
        """Called before each read of heads. Returns the exception to raise instead, or None."""
        self.attempts: list[Link] = []
        """The links of all landings so far, failed landings included."""

    def land(self, spark: Any, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        self.attempts += [landing.link for landing in landings]
        if error := self.land_error():
            raise error
        self._table.land(spark, landings, shape, checkpoint)
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConnectionResetError("the answer is lost")

    def links(self, spark: Any, key: ChainKey, since: int) -> Sequence[Link]:
        if self.failing_reads:
            self.failing_reads -= 1
            raise TimeoutError("the table cannot be read now")
        return self._table.links(spark, key, since)

    @property
    def name(self) -> str:
        return self._table.name

    @property
    def staging(self) -> Staging:
        return self._table.staging

    def adopts(self, shape: Shape) -> bool:
        return self._table.adopts(shape)

    def open(self, spark: Any) -> None:
        self._table.open(spark)

    def heads(self, spark: Any, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        if error := self.heads_error():
            raise error
        return self._table.heads(spark, keys)

    def keys(self, spark: Any) -> Sequence[ChainKey]:
        return self._table.keys(spark)

    def read(self, spark: Any, version: str | None = None) -> Any:
        return self._table.read(spark, version)

    def heads_at(self, spark: Any, version: str) -> dict[ChainKey, Link]:
        return self._table.heads_at(spark, version)

    def leftovers(self, spark: Any) -> Sequence[Leftover]:
        return self._table.leftovers(spark)

    def remove(self, spark: Any, leftover: Leftover) -> None:
        self._table.remove(spark, leftover)


@attrs.define
class LandingGroup:
    """A broker with one topic, a table, and the members that `join` starts."""

    cluster: EmbeddedCluster
    directory: Path
    nursery: trio.Nursery
    partitions: int
    engines: list[LoopEngine] = attrs.field(factory=list)

    @property
    def keys(self) -> list[ChainKey]:
        return [ChainKey(SINK, TOPIC, number) for number in range(self.partitions)]

    @property
    def parquet(self) -> ParquetTable:
        return ParquetTable(self.directory)

    async def join(self, *, seconds: float = 0.0, table: Table | None = None, **options: Any) -> Running:
        """Start a member.

        Args:
            seconds: the duration of each of its landings.
            table: the table to land in; None for the group's Parquet table.
            options: options of its sink. `config` is a mapping with options of Config.
        """
        config = options.pop("config", {})
        engine = LoopEngine(seconds=seconds)
        self.engines.append(engine)
        settings = {"max_rows": 10, "max_age": 1.0, **options}
        sink = SparkSink(table or self.parquet, spark=engine, **settings)
        running: Running = await self.nursery.start(self._run, sink, config)
        return running

    async def _run(self, sink: SparkSink, config: dict[str, Any], *, task_status: trio.TaskStatus[Running]) -> None:
        async with sink, trio.open_nursery() as nursery:
            running = await start_member(nursery, self.cluster, sink, group=GROUP, **config)
            task_status.started(running)
            await running.ended.wait()

    def produce(self, count: int) -> None:
        for number in range(self.partitions):
            self.cluster.produce_many(TOPIC, number, [(None, b"%d" % n) for n in range(count)])

    def renew_leaders(self) -> None:
        """Move each partition's leader to broker 0 and to broker 1, which gives it new leader epochs."""
        for number in range(self.partitions):
            for broker_id in range(2):
                self.cluster.move_leader(TOPIC, number, broker_id)

    @property
    def ends(self) -> dict[ChainKey, int]:
        return {key: self.cluster.log(TOPIC, key.partition).end_offset for key in self.keys}

    @property
    def committed(self) -> dict[ChainKey, CommittedOffset]:
        found = self.cluster.committed(GROUP)
        return {key: found[key.topic_partition] for key in self.keys if key.topic_partition in found}

    @property
    def heads(self) -> dict[ChainKey, Link]:
        return self.parquet.heads(NO_SPARK, self.keys)

    async def until_landed(self) -> None:
        """Wait until all records are committed, and check that the table's heads are the log ends."""
        while {key: commit.offset for key, commit in self.committed.items()} != self.ends:
            await trio.sleep(0.5)
        assert {key: head.to_offset for key, head in self.heads.items()} == self.ends

    async def commit(self, offset: int, metadata: str = "") -> None:
        """Commit an offset for each partition through the admin client."""
        wanted = {TopicPartition(TOPIC, n): CommittedOffset(offset, metadata) for n in range(self.partitions)}
        async with self.admin() as admin:
            await admin.commit(GROUP, wanted)

    async def forget(self) -> None:
        """Delete the committed offsets, as the broker does when they expire."""
        async with self.admin() as admin:
            await admin.delete_offsets(GROUP, [key.topic_partition for key in self.keys])

    def admin(self) -> GroupAdmin:
        return GroupAdmin(self.cluster.bootstrap_servers, Config(), log_event, transport=self.cluster.transport)

    def prove(self) -> None:
        """Check that the table has each record once, and no leftovers."""
        for key, end in self.ends.items():
            prove_chain(self.parquet, None, key, end)
        prove_rows(self.parquet, None, offsets(self.ends))
        prove_audit(self.parquet, None)
        assert self.parquet.leftovers(NO_SPARK) == []


@asynccontextmanager
async def landing_group(
    directory: Path, partitions: int = 1, *, brokers: int = 1, seconds: float = 3600.0
) -> AsyncIterator[LandingGroup]:
    """Run a cluster and an empty group. The block must end within `seconds` of virtual time."""
    with trio.fail_after(seconds):
        async with (
            EmbeddedCluster(topics={TOPIC: partitions}, brokers=brokers, in_memory=True, seed=1) as cluster,
            trio.open_nursery() as nursery,
        ):
            yield LandingGroup(cluster, directory, nursery, partitions)
            nursery.cancel_scope.cancel()
