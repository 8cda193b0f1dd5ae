"""Spark jobs of landings, also into a Delta table with a single driver: one job, with one task for each landing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sarameya_handlers import DeltaTable, ParquetTable
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.one_job import MAX_TOGETHER
from sarameya_handlers.spark.tables.table import Table
from tests.integration.delta_stage import link
from tests.integration.lake_stage import classic, landing_of, rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

PARTITIONS = 3


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with classic(tmp_path_factory.mktemp("lake")) as session:
        yield session


@pytest.mark.parametrize("kind", [ParquetTable, DeltaTable])
def test_batches_in_one_job_have_a_task_each(
    spark: SparkSession, tmp_path: Path, kind: type[ParquetTable] | type[DeltaTable]
) -> None:
    """Since 4.1, Spark would run a union of frames with one partition each as a single task."""
    table = kind(tmp_path / "table")
    table.open(spark)
    keys = [ChainKey("sink", "orders", partition) for partition in range(PARTITIONS)]
    first = [link(1, 0, 2, key=key) for key in keys]
    assert table.landings_per_job == MAX_TOGETHER  # also for the landings that create the table
    _land(spark, table, *first)
    assert table.landings_per_job == MAX_TOGETHER
    second = [link(2, 2, 7, key=key) for key in keys]
    context, group = spark.sparkContext, str(tmp_path)
    context.setJobGroup(group, "a flush")
    try:
        _land(spark, table, *second)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    tracker = context.statusTracker()
    (job,) = tracker.getJobIdsForGroup(group)
    stages = [tracker.getStageInfo(stage) for stage in tracker.getJobInfo(job).stageIds]
    assert [stage.numTasks for stage in stages if stage] == [PARTITIONS]
    assert [table.heads(spark, keys)[key].rows for key in keys] == [5] * PARTITIONS
    assert rows(table.read(spark)) == rows_of(*first, *second)


def _land(spark: SparkSession, table: Table, *links: Link) -> None:
    landings = [landing_of(table, one) for one in links]
    table.land(spark, landings, Shaping(transform_sql="select * from batch"), lambda phase, landings: None)
