"""The demo's landing, from Apache Kafka: two workers of `sarameya run`, through Spark, into Parquet, and back."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow.dataset
import pytest
import trio

from examples.flights.data import PARTITIONS, flights
from examples.flights.service import running
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import send

pytestmark = pytest.mark.integration

in_thread = partial(trio.to_thread.run_sync, abandon_on_cancel=True)

ROWS = 40_000
GROUP = "flights-landing"
START_SECONDS = 120.0
LAND_SECONDS = 120.0
"""Timeout in seconds, long on purpose: a busy machine may take most of a minute to start two Sparks."""

APP = """
bootstrap_servers = {bootstrap_servers}
group = "{group}"
topics = ["flights"]

[config]
offset_initial = "oldest"

[handler]
name = "spark"

[handler.options]
path = {landing}
max_age = 2.0
transform = "examples.flights.transform:flights"
spark.master = "local[1]"
"""


async def test_two_workers_land_every_record_once(real_kafka: RealKafka, tmp_path: Path) -> None:
    real_kafka.create_topic("flights", PARTITIONS)
    landing = tmp_path / "flights"
    app_file = tmp_path / "landing.toml"
    servers = json.dumps(real_kafka.bootstrap_servers)
    app_file.write_text(APP.format(bootstrap_servers=servers, group=GROUP, landing=json.dumps(str(landing))))
    records = [flight._asdict() for flight in islice(flights(), ROWS)]

    async with running(app_file, workers=2) as service:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.fail_if_ended)
            await in_thread(real_kafka.await_members, GROUP, 2, START_SECONDS)
            produced = await in_thread(send, real_kafka, "flights", records)
            await real_kafka.until_committed(GROUP, ROWS, LAND_SECONDS)
            while_running = await in_thread(real_kafka.describe_group, GROUP)
            nursery.cancel_scope.cancel()
        await service.stop()

    assert [(line.partition, line.lag) for line in while_running] == [(partition, 0) for partition in range(PARTITIONS)]
    assert sorted(Counter(line.member_id for line in while_running).values()) == [2, 2]
    assert landed(landing) == sorted(produced)
    assert [(line.lag, line.member_id) for line in real_kafka.describe_group(GROUP)] == [(0, None)] * PARTITIONS


def landed(landing: Path) -> list[tuple[int, int]]:
    """Return the (partition, offset) of each landed row, read without Spark."""
    table = pyarrow.dataset.dataset(landing, format="parquet").to_table(columns=["partition", "offset"])
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
