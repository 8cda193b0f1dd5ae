"""Landing figures of `/metrics` and the page, compared with the table, while a sink lands through a real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families as parse
from pyspark.sql import DataFrame, SparkSession

from sarameya import Config, ConsumerGroup
from sarameya.embedded import EmbeddedCluster
from sarameya.service.monitor.local_members import LocalMembers
from sarameya.service.web.server import serve_pages
from sarameya.service.web.status_board import StatusBoard
from sarameya_handlers import ParquetTable, SparkSink
from sarameya_handlers.landing.dead_letters.files import FileDeadLetters
from sarameya_handlers.landing.links import ChainKey
from tests.group.kit import budget_of
from tests.integration.browser.chromium import Browser
from tests.integration.browser.service import get
from tests.integration.warm_spark import warm_spark

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves sockets open when rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

DEADLINE = 120.0
BAD = {7: b"abc", 8: b"", 11: b"9999999999999"}
"""Values of partition 0, by offset, that cannot be cast to an int."""
ENDS = {0: 200, 1: 100}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with warm_spark() as session:
        yield session


def numbers(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("cast(cast(value as string) as int) as n", "partition", "offset")


class Metrics:
    """The metrics at a URL."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def of(self, name: str, **labels: str) -> dict[tuple[str, ...], float]:
        """Return the values of the samples with these labels, by their other labels except group and worker."""
        code, text = await trio.to_thread.run_sync(get, f"{self._url}/metrics")
        assert code == 200
        left_out = {"group", "worker", *labels}
        return {
            tuple(value for label, value in sorted(sample.labels.items()) if label not in left_out): sample.value
            for family in parse(text)
            for sample in family.samples
            if sample.name == f"sarameya_{name}" and labels.items() <= sample.labels.items()
        }

    async def one(self, name: str, **labels: str) -> float:
        """Return the value of the only sample with these labels."""
        (value,) = (await self.of(name, **labels)).values()
        return value


async def test_page_and_metrics_match_the_table(spark: SparkSession, tmp_path: Path, browser: Browser) -> None:
    table, letters = ParquetTable(tmp_path / "orders"), tmp_path / "letters"
    # No batch lands because of its age, so that the test can check the buffered bytes.
    sink = SparkSink(
        table,
        max_rows=100,
        max_age=3600.0,
        transform=numbers,
        dead_letters=FileDeadLetters(letters),
        spark=spark,
    )
    config = Config(offset_initial="oldest", autocommit_interval=0.1, session_timeout=60.0)
    roster = LocalMembers([1])
    board = StatusBoard("landing", roster, stall_after=300.0, why_stopping=lambda: "")
    async with EmbeddedCluster(topics={"orders": 2}) as cluster, sink:
        with trio.fail_after(DEADLINE):
            began = trio.current_time()
            async with (
                ConsumerGroup(cluster.bootstrap_servers, "landing", config, observers=[roster.recorder(1)]) as group,
                serve_pages(board, "127.0.0.1:0") as url,
                trio.open_nursery() as nursery,
            ):
                roster.set_group(1, group)
                metrics = Metrics(url)
                nursery.start_soon(group.consume, ["orders"], sink)
                cluster.produce_many("orders", 1, [(None, b"%d" % n) for n in range(50)])
                while await metrics.of("partition_position_offset") != {("0", "orders"): 0, ("1", "orders"): 50}:
                    await trio.sleep(0.05)
                assert await metrics.of("partition_landed_offset") == {}
                assert await metrics.one("landing_failures_total", topic="orders") == 0
                held = budget_of(group).held
                assert await metrics.one("buffer_bytes") == held > 0

                cluster.produce_many("orders", 1, [(None, b"%d" % n) for n in range(50, 100)])
                cluster.produce_many("orders", 0, [(None, BAD.get(n, b"%d" % n)) for n in range(200)])
                while {key.partition: one.offset for key, one in cluster.committed("landing").items()} != ENDS:
                    await trio.sleep(0.05)
                landed = {(str(partition), "orders"): float(end) for partition, end in ENDS.items()}
                assert await metrics.of("partition_landed_offset") == landed
                assert await metrics.one("buffer_bytes") == budget_of(group).held
                async with browser.page(url) as page:
                    ends = [(str(partition), str(end)) for partition, end in ENDS.items()]
                    await page.until_rows(
                        "partitions", lambda rows: [(row["Partition"], row["Landed"]) for row in rows] == ends
                    )
                    shown = await page.rows("landings")
                group.close_nowait()
            took = trio.current_time() - began

            async with serve_pages(board, "127.0.0.1:0") as url:
                metrics = Metrics(url)
                assert await metrics.of("partition_landed_offset") == {}, "the member owns no partitions any more"
                links = [
                    link for number in ENDS for link in table.links(spark, ChainKey("sarameya", "orders", number), 1)
                ]
                rows = pq.read_table(table.path).num_rows
                size = sum(file.stat().st_size for file in table.path.glob("*.parquet"))
                assert rows == 300 - len(BAD)
                landings = [row for row in shown if row["Result"] == "landed"]
                assert len(landings) == len(links)
                assert sum(int(row["Rows"]) for row in landings) == rows
                assert {(row["Partition"], row["Offsets"].partition(" to ")[2]) for row in landings} >= set(ends)
                (failed,) = [row for row in shown if row not in landings]
                assert failed["Result"].startswith("failed: "), failed
                for name in ("duration_seconds", "rows", "size_bytes"):
                    assert await metrics.one(f"landing_{name}_count", topic="orders") == len(links)
                assert await metrics.one("landing_rows_sum", topic="orders") == rows
                assert await metrics.one("landing_size_bytes_sum", topic="orders") == size
                assert 0 < await metrics.one("landing_duration_seconds_sum", topic="orders") < took
                dead = sum(pq.read_table(file).num_rows for file in letters.iterdir())
                assert await metrics.one("dead_letters_total", topic="orders") == dead == len(BAD)
                # Only the landing with all bad records counts. The attempts that search for them are not landings.
                assert await metrics.one("landing_failures_total", topic="orders") == 1
