"""Fakes on Spark's side: an engine that runs work inline after virtual seconds, a session, frames, a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import trio

from sarameya_handlers.spark.engine import Engine
from sarameya_handlers.spark.table import Checkpoint, Landing, Table


class FakeFrame:
    """A DataFrame of an Arrow table; as a writer it writes what Spark writes."""

    def __init__(self, table: pa.Table, files: list[str] | None = None) -> None:
        self.table = table
        self._files = ["staged"] if files is None else files
        self.partitions: int | None = None

    @property
    def write(self) -> Self:
        return self

    def inputFiles(self) -> list[str]:
        return self._files

    def coalesce(self, partitions: int) -> Self:
        self.partitions = partitions
        return self

    def option(self, name: str, value: object) -> Self:
        return self

    def parquet(self, path: str) -> None:
        assert self.partitions == 1
        directory = Path(path.removeprefix("file://"))
        directory.mkdir()
        pq.write_table(self.table, directory / "part-00000-c000.snappy.parquet")
        (directory / "_SUCCESS").touch()


class FakeSpark:
    """A SparkSession that can read one Parquet file."""

    def __init__(self, *, sees_files: bool = True) -> None:
        self._sees_files = sees_files

    @property
    def read(self) -> Self:
        return self

    def schema(self, columns: str) -> Self:
        return self

    def parquet(self, path: str) -> FakeFrame:
        table = pq.read_table(path.removeprefix("file://"))
        return FakeFrame(table) if self._sees_files else FakeFrame(table.slice(0, 0), [])


class FakeEngine(Engine):
    """Runs work on the loop, `seconds` of trio's clock later."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.running = 0
        self.most_running = 0
        self.inside = False

    async def __aenter__(self) -> Self:
        self.inside = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.inside = False

    async def run(self, work: Callable[[Any, Checkpoint], Any], *, tag: str) -> Any:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await trio.sleep(self.seconds)
            return work(FakeSpark(), lambda: None)
        finally:
            self.running -= 1


class FakeTable(Table):
    """Keeps what is appended: `landings`, each with its offsets and when it came."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.landings: list[Landing] = []
        self.offsets: list[list[int]] = []
        self.times: list[float] = []
        self.error: Exception | None = None
        self.loses = 0

    @property
    def staging(self) -> Path:
        return self._directory

    def open(self) -> None:
        if self.error:
            raise self.error

    def append(self, landing: Landing, frame: Any, checkpoint: Checkpoint) -> int:
        if self.error:
            raise self.error
        self.landings.append(landing)
        self.offsets.append(frame.table["offset"].to_pylist())
        self.times.append(trio.current_time())
        return int(frame.table.num_rows) - self.loses
