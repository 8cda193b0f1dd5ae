"""Groups of members that land in Parquet, in this process and in virtual time: real but for Spark and the network."""

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
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Leftover, Shape, Table
from tests.conformance.brokers import GROUP, SINK, TOPIC
from tests.conformance.logs import NO_SPARK, LoopEngine
from tests.conformance.proof import offsets, prove_audit, prove_chain, prove_rows
from tests.group.kit import Running, start_member


class Troubled(Table):
    """A table of which landings and read-backs may fail: before, after, or instead of what they do."""

    def __init__(self, table: ParquetTable) -> None:
        self._table = table
        self.landings_per_job = table.landings_per_job
        self.needs_spark = False
        self.refuses: Callable[[], Exception | None] = lambda: None
        """Asked by each landing before it is tried."""
        self.lost_answers = 0
        """So many landings raise once they are done."""
        self.unreadable = 0
        """So many looks at the chains fail."""
        self.unknown_heads: Callable[[], Exception | None] = lambda: None
        """Asked by each look at where chains end."""
        self.tries: list[Link] = []

    def land(self, spark: Any, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        self.tries += [landing.link for landing in landings]
        if error := self.refuses():
            raise error
        self._table.land(spark, landings, shape, checkpoint)
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConnectionResetError("the answer is lost")

    def links(self, spark: Any, key: ChainKey, since: int) -> Sequence[Link]:
        if self.unreadable:
            self.unreadable -= 1
            raise TimeoutError("the table cannot be read now")
        return self._table.links(spark, key, since)

    @property
    def name(self) -> str:
        return self._table.name

    @property
    def staging(self) -> Path:
        return self._table.staging

    def adopts(self, shape: Shape) -> bool:
        return self._table.adopts(shape)

    def open(self, spark: Any) -> None:
        self._table.open(spark)

    def heads(self, spark: Any, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        if error := self.unknown_heads():
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
        """Start a member, each of whose landings takes so many seconds; `options` are those of its sink, and of Config
        with a `config` mapping."""
        config = options.pop("config", {})
        engine = LoopEngine(seconds=seconds)
        self.engines.append(engine)
        settings = {"max_rows": 10, "max_age": 1.0, **options}
        sink = SparkSink(table or self.parquet, spark=engine, **settings)
        running: Running = await self.nursery.start(self._live, sink, config)
        return running

    async def _live(self, sink: SparkSink, config: dict[str, Any], *, task_status: trio.TaskStatus[Running]) -> None:
        async with sink, trio.open_nursery() as nursery:
            running = await start_member(nursery, self.cluster, sink, group=GROUP, **config)
            task_status.started(running)
            await running.ended.wait()

    def produce(self, count: int) -> None:
        for number in range(self.partitions):
            self.cluster.produce_many(TOPIC, number, [(None, b"%d" % n) for n in range(count)])

    def lead_anew(self) -> None:
        """Let each of two brokers lead, under new epochs."""
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
        """Wait until all is in the table, and committed."""
        while {key: commit.offset for key, commit in self.committed.items()} != self.ends:
            await trio.sleep(0.5)
        assert {key: head.to_offset for key, head in self.heads.items()} == self.ends

    async def commit(self, offset: int, metadata: str = "") -> None:
        """Commit an offset for each partition, as an admin does."""
        wanted = {TopicPartition(TOPIC, n): CommittedOffset(offset, metadata) for n in range(self.partitions)}
        async with self.admin() as admin:
            await admin.commit(GROUP, wanted)

    async def forget(self) -> None:
        """Delete the committed offsets, as the broker does when they expire."""
        async with self.admin() as admin:
            await admin.delete_offsets(GROUP, [key.topic_partition for key in self.keys])

    def admin(self) -> GroupAdmin:
        return GroupAdmin(self.cluster.bootstrap_servers, Config(), log_event, transport=self.cluster.transport)

    def proves(self) -> None:
        for key, end in self.ends.items():
            prove_chain(self.parquet, None, key, end)
        prove_rows(self.parquet, None, offsets(self.ends))
        prove_audit(self.parquet, None)
        assert self.parquet.leftovers(NO_SPARK) == []


@asynccontextmanager
async def landing_group(
    directory: Path, partitions: int = 1, *, brokers: int = 1, seconds: float = 3600.0
) -> AsyncIterator[LandingGroup]:
    """Within so many seconds of virtual time."""
    with trio.fail_after(seconds):
        async with (
            EmbeddedCluster(topics={TOPIC: partitions}, brokers=brokers, in_memory=True, seed=1) as cluster,
            trio.open_nursery() as nursery,
        ):
            yield LandingGroup(cluster, directory, nursery, partitions)
            nursery.cancel_scope.cancel()
