"""A service that lands each topic in its own table, and the commands for all its tables."""

from __future__ import annotations

import json
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import trio
from pyspark.sql import SparkSession

from sarameya import Config, ConsumerGroup, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya_handlers import SparkSink
from sarameya_handlers.spark.sink.options import table_of
from tests.integration.warm_spark import warm_spark

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves sockets open when rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SARAMEYA = str(Path(sysconfig.get_path("scripts"), "sarameya"))
DEADLINE = 120.0
TOPICS = ("orders", "payments", "returns")
APP = """
bootstrap_servers = {servers}
group = "lake"
{topics}

[handler]
name = "spark"

[handler.options]
table = "parquet:{directory}/{{topic}}"
"""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with warm_spark() as session:
        yield session


async def sarameya(*arguments: object, code: int = 0) -> Any:
    """Run a command, check its exit code, and return its JSON document."""
    command = [SARAMEYA, *map(str, arguments), "--json", "--quiet"]
    with trio.fail_after(DEADLINE):
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    assert done.returncode == code, done.stderr.decode()
    return json.loads(done.stdout)


async def test_failing_table_holds_back_only_its_own_topic(spark: SparkSession, tmp_path: Path) -> None:
    """The topic continues once the cause is removed. Then the commands read the app file, and process all tables."""
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "returns").write_text("in the way of a directory")
    async with EmbeddedCluster(topics=dict.fromkeys(TOPICS, 2)) as cluster:
        for topic in TOPICS:
            for number in range(200):
                cluster.produce(topic, number % 2, b"%s %d" % (topic.encode(), number))
        tables = table_of({"table": f"parquet:{lake}/{{topic}}"})
        sink = SparkSink(tables, max_age=0.5, spark=spark)
        config = Config(offset_initial="oldest", autocommit_interval=0.1, session_timeout=60.0)

        def committed(*topics: str) -> int:
            found = cluster.committed("lake")
            return sum(offset.offset for partition, offset in found.items() if partition.topic in topics)

        with trio.fail_after(DEADLINE):
            async with (
                sink,
                ConsumerGroup(cluster.bootstrap_servers, "lake", config) as group,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(group.consume, TOPICS, sink)
                while committed("orders", "payments") < 400:
                    await trio.sleep(0.05)
                rows = {row.partition: row for row in group.status().partitions}
                stopped = rows[TopicPartition("returns", 0)]
                assert f"cannot land in {lake}/returns" in stopped.reason
                assert committed("returns") == 0
                (lake / "returns").unlink()
                while committed(*TOPICS) < 600:
                    await trio.sleep(0.05)
                group.close_nowait()

        for topic in TOPICS:
            landed = pq.read_table(lake / topic, columns=["topic", "value"])
            assert set(landed["topic"].to_pylist()) == {topic}
            assert sorted(landed["value"].to_pylist()) == sorted(b"%s %d" % (topic.encode(), n) for n in range(200))

        names = [f"parquet:{lake}/{topic}" for topic in TOPICS]
        app = tmp_path / "app.toml"
        for subscription in ("topics = " + json.dumps(TOPICS), "topics_pattern = '[a-z]+'"):
            text = APP.format(servers=json.dumps(cluster.bootstrap_servers), topics=subscription, directory=lake)
            app.write_text(text)
            verified = (await sarameya("verify", "--app", app))["tables"]
            assert [(table["table"], table["proved"], table["rows"]) for table in verified] == [
                (name, True, 200) for name in names
            ]
        compacted = (await sarameya("compact", "--app", app))["tables"]
        assert [(table["table"], table["rows"]) for table in compacted] == [(name, 200) for name in names]
        swept = (await sarameya("sweep", "--app", app, "--older-than", "1d"))["tables"]
        assert [table["table"] for table in swept] == names

        shutil.rmtree(lake / "payments")
        verified = (await sarameya("verify", "--app", app, code=1))["tables"]
        assert [(table["table"], table.get("proved")) for table in verified] == [
            (names[0], True),
            (names[1], False),
            (names[2], True),
        ]
