"""Fakes of Spark: an engine that runs work inline after a virtual delay, a session, frames, a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trio
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sarameya import CommittedOffset, HandlerError
from sarameya_handlers import SparkSink
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.delta import spark_writer
from sarameya_handlers.spark.engines.engine import Engine
from sarameya_handlers.spark.tables import foreach_batch, staged_records
from sarameya_handlers.spark.tables.row_count import RowCount
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Leftover, Phase, Shape, Table
from tests.handlers.kit import FakeClaim, FakeSession


async def consume(sink: SparkSink, session: FakeSession, claim: FakeClaim) -> None:
    """Consume one claim as the runtime does."""
    async with sink:
        await consume_in(sink, session, claim)


async def consume_in(
    sink: SparkSink, session: FakeSession, claim: FakeClaim, committed: CommittedOffset | None = None
) -> None:
    """Consume one claim with a sink that is open."""
    await sink.partitions_assigned(session, [claim.topic_partition])
    start = await sink.start_offset(claim.topic_partition, committed)
    if start is not None:
        claim.initial_offset = start.offset
    await sink.consume_claim(session, claim)


class FakeFrame:
    """A DataFrame of an Arrow table, which is its own DataFrameWriter and writes the files that Spark would write."""

    def __init__(self, table: pa.Table, files: list[str] | None = None) -> None:
        self.table = table
        self._files = ["staged"] if files is None else files
        self.partitions: int | None = None

    @property
    def write(self) -> Self:
        return self

    @property
    def schema(self) -> StructType:
        return from_arrow_schema(self.table.schema)

    def inputFiles(self) -> list[str]:
        return self._files

    def coalesce(self, partitions: int) -> Self:
        self.partitions = partitions
        return self

    def option(self, name: str, value: object) -> Self:
        return self

    def format(self, name: str) -> Self:
        assert name == "noop"
        return self

    def mode(self, name: str) -> Self:
        return self

    def save(self) -> None: ...

    def parquet(self, path: str) -> None:
        assert self.partitions == 1
        directory = Path(path.removeprefix("file://"))
        directory.mkdir()
        if self.table.num_rows:
            pq.write_table(self.table, directory / "part-00000-c000.snappy.parquet")
        (directory / "_SUCCESS").touch()


class FakeSpark:
    """A local SparkSession that can read one Parquet file. Without `sees_files` it finds none, like a remote Spark."""

    sparkContext = SimpleNamespace(master="local[1]")

    def __init__(self, *, sees_files: bool = True) -> None:
        self._sees_files = sees_files

    @property
    def read(self) -> Self:
        return self

    def schema(self, columns: str) -> Self:
        return self

    def options(self, **options: str) -> Self:
        return self

    def parquet(self, path: str) -> FakeFrame:
        table = pq.read_table(path.removeprefix("file://"))
        return FakeFrame(table) if self._sees_files else FakeFrame(table.slice(0, 0), [])


class FakeEngine(Engine):
    """An engine that runs work in the event loop.

    A flush first waits for `seconds` of trio's clock. `cancelled` has the tags of flushes that were cancelled.
    """

    def __init__(self, seconds: float = 0.0, *, max_jobs: int = 2) -> None:
        self.seconds = seconds
        self.running = 0
        self.most_running = 0
        self.inside = False
        self.cancelled: list[str] = []
        self._max_jobs = max_jobs

    @property
    def max_jobs(self) -> int:
        return self._max_jobs

    async def __aenter__(self) -> Self:
        self.inside = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.inside = False

    async def run(self, work: Callable[[Any, Any], Any], *, tag: str) -> Any:
        if getattr(getattr(work, "func", None), "__name__", "") != "flush":
            await trio.lowlevel.checkpoint()
            return work(FakeSpark(), lambda: None)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await trio.sleep(self.seconds)
            return work(FakeSpark(), lambda: None)
        except trio.Cancelled:
            self.cancelled.append(tag)
            raise
        finally:
            self.running -= 1


class FakeTable(Table):
    """A table that keeps its chains in memory.

    `landings` has all attempts, `jobs` the number of landings in each call. `offsets` and `times` have the offsets and
    the time of each attempt that won.
    """

    def __init__(self, directory: Path, *, landings_per_job: int = 1) -> None:
        self._directory = directory
        self.landings_per_job = landings_per_job
        self.chains: dict[ChainKey, list[Link]] = {}
        self.landings: list[Landing] = []
        self.jobs: list[int] = []
        self.offsets: list[list[int]] = []
        self.times: list[float] = []
        self.error: Exception | None = None
        """Raised by `open`, and by `land` before any landing."""
        self.states_heads = True
        self.resting: list[Link] = []
        """The heads passed to `rest`."""
        self.resting_error: Exception | None = None
        """Raised by `rest`."""
        self.late_error: Exception | None = None
        """Raised once by `land` after its work: the landing succeeds, but its response is lost."""
        self.unreadable: list[Exception] = []
        """Raised by the next calls of `links`, the last exception first."""
        self.unknown_heads: list[Exception] = []
        """Raised by the next calls of `heads`, the last exception first."""
        self.before: Callable[[Sequence[Landing]], None] | None = None
        """Called once before the next landing, to simulate another writer."""

    @property
    def name(self) -> str:
        return "fake:table"

    @property
    def staging(self) -> Staging:
        return Staging(self._directory)

    def open(self, spark: Any) -> None:
        if self.error:
            raise self.error

    def heads(self, spark: Any, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        if self.unknown_heads:
            raise self.unknown_heads.pop()
        return {key: self.chains[key][-1] for key in keys if self.chains.get(key)}

    def links(self, spark: Any, key: ChainKey, since: int) -> Sequence[Link]:
        if self.unreadable:
            raise self.unreadable.pop()
        return self.chains.get(key, [])[since - 1 :]

    def land(self, spark: Any, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        self.landings += landings
        self.jobs.append(len(landings))
        if self.before:
            before, self.before = self.before, None
            before(landings)
        if self.error:
            raise self.error
        for landing in landings:
            frame: Any = shape.frame(spark, landing) if landing.staged else None
            self.append(landing.link, frame.table["offset"].to_pylist() if frame else [])
        checkpoint(Phase.WRITTEN, landings)
        if self.late_error:
            late, self.late_error = self.late_error, None
            raise late

    def append(self, link: Link, offsets: list[int]) -> None:
        """Append a link if its number is the chain's next one: the compare-and-swap of the table."""
        chain = self.chains.setdefault(link.key, [])
        if link.number == len(chain) + 1:
            chain.append(attrs.evolve(link, rows=len(offsets)))
            self.offsets.append(offsets)
            self.times.append(trio.current_time())

    def rest(self, spark: Any, heads: Iterable[Link]) -> None:
        if self.resting_error:
            raise self.resting_error
        self.resting += heads

    def keys(self, spark: Any) -> Sequence[ChainKey]:
        return list(self.chains)

    def read(self, spark: Any, version: str | None = None) -> Any:
        raise HandlerError("a fake table has no rows")

    def heads_at(self, spark: Any, version: str) -> dict[ChainKey, Link]:
        raise HandlerError("a fake keeps no versions")

    def leftovers(self, spark: Any) -> Sequence[Leftover]:
        return []

    def remove(self, spark: Any, leftover: Leftover) -> None:
        return


@attrs.frozen
class FakeRowCount:
    """A row count that returns the number of rows in a fake frame."""

    frame: FakeFrame

    @property
    def rows(self) -> int:
        return self.frame.table.num_rows


def count_fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace row counts by those of fake frames, and accept every staged file as readable."""

    def readable(spark: Any, landing: Any) -> None: ...

    monkeypatch.setattr(RowCount, "of", FakeRowCount)
    for module in (staged_records, foreach_batch, spark_writer):
        monkeypatch.setattr(module, "require_readable", readable)
