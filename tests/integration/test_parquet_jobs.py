"""How Spark writes a Parquet directory's landings: in one job, with as many tasks as there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.spark.shaping.shaping import Shaping
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


def test_landings_that_share_a_job_have_a_task_each(spark: SparkSession, tmp_path: Path) -> None:
    """Not one for all, as the union of frames of one partition each is to Spark since 4.1."""
    table = ParquetTable(tmp_path / "table")
    table.open(spark)
    chains = [link(1, 0, 5, key=ChainKey("sink", "orders", partition)) for partition in range(PARTITIONS)]
    landings = [landing_of(table, one) for one in chains]
    context, group = spark.sparkContext, str(tmp_path)
    context.setJobGroup(group, "a flush")
    try:
        shape = Shaping(transform_sql="select * from batch")
        table.land(spark, landings, shape, lambda phase, landings: None)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    tracker = context.statusTracker()
    (job,) = tracker.getJobIdsForGroup(group)
    stages = [tracker.getStageInfo(stage) for stage in tracker.getJobInfo(job).stageIds]
    assert [stage.numTasks for stage in stages if stage] == [PARTITIONS]
    assert rows(table.read(spark)) == rows_of(*chains)
