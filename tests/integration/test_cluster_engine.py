"""Spark with executors in their own processes (`local-cluster`): visible files, failures, and the executors' end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
import trio
from pyspark import SparkContext
from pyspark.sql import DataFrame

from sarameya import HandlerError
from sarameya_handlers import ParquetTable, SparkOptions, SparkSink
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.engines.engine import SparkEngine
from sarameya_handlers.spark.error_sources import passes
from sarameya_handlers.spark.errors import LandingError, SparkGoneError
from sarameya_handlers.spark.tables.file_visibility import check_writes
from sarameya_handlers.spark.tables.one_job import write_each
from sarameya_handlers.spark.tables.staging import Staging
from tests.handlers.kit import FakeSession, batch, claim_of
from tests.handlers.spark.kit import consume_in
from tests.integration.class_data import quick
from tests.integration.processes import children, is_running

pytestmark = [pytest.mark.integration, pytest.mark.cold]

DEADLINE = 240.0
OPTIONS = SparkOptions(
    master="local-cluster[2,1,512]",
    conf={"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": " ".join(quick("spark"))},
)


@pytest.fixture(autouse=True)
def _directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the driver a working directory, and Spark a home below which each executor has its own directory."""
    for name in ("driver", "home"):
        (tmp_path / name).mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        (tmp_path / "home" / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path / "driver")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "home"))


def executors() -> list[int]:
    return children("java", SparkContext._gateway.proc.pid)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "the condition is still false at the deadline"
        time.sleep(0.05)


async def test_executors_use_the_mount_and_end_with_their_driver(tmp_path: Path) -> None:
    def check(spark: Any, _: object) -> None:
        Staging(tmp_path).open(spark)
        check_writes(spark, LocalStore(tmp_path.parent), tmp_path.name)

    async with SparkEngine(OPTIONS) as engine:
        await engine.run(check, tag="t")
        pids = executors()
        assert len(pids) == 2
    until(lambda: not any(map(is_running, pids)))
    assert sorted(os.listdir(tmp_path)) == ["driver", "home"]


def placed(frame: DataFrame) -> DataFrame:
    """Add the working directory of the evaluating process."""
    return frame.selectExpr("*", "reflect('java.lang.System', 'getProperty', 'user.dir') as place")


async def test_executors_transform_and_write_records_once(tmp_path: Path) -> None:
    table, session = ParquetTable(tmp_path / "landed"), FakeSession()
    async with SparkSink(table, transform=placed, spark=OPTIONS, max_rows=3) as sink:
        await consume_in(sink, session, claim_of([batch(0, 3), batch(3, 3)]))
    rows = pq.read_table([*table.path.glob("part-*.parquet")]).to_pylist()
    assert sorted(row["offset"] for row in rows) == [*range(6)]
    # Executors work below the driver's SPARK_HOME.
    assert {str(Path(row["place"]).parents[1]) for row in rows} == {str(tmp_path / "home" / "work")}
    assert session.marks[-1] == ("orders", 0, 6)


async def test_driver_only_directory_is_refused_with_advice() -> None:
    # Each process has its own directory at this path, as if each machine had its own disk.
    staging = Path("/proc/self/cwd/staging")
    os.mkdir(staging)
    async with SparkEngine(OPTIONS) as engine:
        with pytest.raises(HandlerError, match=r"does not read what .* (?s:.)*choose a directory that all machines"):
            await engine.run(lambda spark, _: Staging(staging).open(spark), tag="t1")
        with pytest.raises(HandlerError, match=r"does not read what Spark writes to .*choose a directory"):
            await engine.run(lambda spark, _: check_writes(spark, LocalStore(staging.parent), "staging"), tag="t2")
    assert os.listdir(staging) == []


@pytest.mark.exhaustive
async def test_rows_in_an_executors_own_directory_are_an_error() -> None:
    """An executor that started later may have its own directory instead of the mount."""
    into = Path("/proc/self/cwd/landing")
    os.mkdir(into)

    def work(spark: Any, _: object) -> None:
        for partitions in (1, 2):
            directories = [f"{partitions}-{number}" for number in range(partitions)]
            with pytest.raises(LandingError, match=r"only 0 of the 5 rows .* do all machines of Spark") as raised:
                write_each(spark, LocalStore(into), directories, [spark.range(5)] * partitions)
            assert passes(raised.value)

    async with SparkEngine(OPTIONS) as engine:
        await engine.run(work, tag="t")


async def test_killed_driver_is_replaced_with_its_executors() -> None:
    async with SparkEngine(OPTIONS) as engine:
        async with trio.open_nursery() as nursery:

            async def work() -> None:
                with pytest.raises(SparkGoneError, match="JVM has died"):
                    await engine.run(lambda spark, _: spark.range(10**15).count(), tag="t1")

            nursery.start_soon(work)
            with trio.fail_after(DEADLINE):
                while not SparkContext._active_spark_context.statusTracker().getActiveJobsIds():
                    await trio.sleep(0.1)
            pids = executors()
            os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
        assert len(pids) == 2
        await trio.to_thread.run_sync(until, lambda: not any(map(is_running, pids)))
        assert await engine.run(lambda spark, _: spark.range(1000).count(), tag="t2") == 1000


@pytest.mark.exhaustive
async def test_killed_executor_is_replaced_by_spark() -> None:
    async with SparkEngine(OPTIONS) as engine:
        await engine.run(lambda spark, _: spark.range(1000).count(), tag="t1")
        driver = SparkContext._gateway.proc.pid
        for pid in executors():
            os.kill(pid, signal.SIGKILL)
        assert await engine.run(lambda spark, _: spark.range(1000).count(), tag="t2") == 1000
        assert SparkContext._gateway.proc.pid == driver
