"""examples/lake.toml: three topics of Apache Kafka become Iceberg tables on S3. pyiceberg reads them."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from examples.flights.service import running
from tests.docs.pages import blocks, page
from tests.integration.lakes.catalogs import rest_catalog
from tests.integration.lakes.jars import iceberg_aws_jars, lake_jars
from tests.integration.object_stores.gateway import Gateway
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import send

pytestmark = [pytest.mark.integration, pytest.mark.cold]

in_thread = partial(trio.to_thread.run_sync, abandon_on_cancel=True)

EXAMPLE = Path(__file__).parents[2] / "examples" / "lake.toml"
SARAMEYA = str(Path(sysconfig.get_path("scripts"), "sarameya"))
CATALOG = "http://localhost:8181"
STORE = "http://localhost:9000"
PACKAGES = next(line for line in EXAMPLE.read_text().splitlines() if line.startswith('"spark.jars.packages"'))
TOPICS = ("orders", "payments", "returns")
COUNT = 300
PARTITIONS = 2
LAND_SECONDS = 240.0
VERIFY_SECONDS = 240.0


async def test_three_topics_become_tables(
    real_kafka_alone: RealKafka, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.set_environment(monkeypatch)
    # As in a user's environment: only keys, and no endpoint.
    for name in ("AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    written = {}
    for topic in TOPICS:
        real_kafka_alone.create_topic(topic, PARTITIONS)
        values = [{"key": b"%d" % number, "value": b'{"number": %d}' % number} for number in range(COUNT)]
        written[topic] = await in_thread(send, real_kafka_alone, topic, values)
    with rest_catalog(tmp_path, gateway) as catalog:
        app_file = tmp_path / "lake.toml"
        app_file.write_text(
            replace_each(
                EXAMPLE.read_text(),
                {
                    '["localhost:9092"]': json.dumps(real_kafka_alone.bootstrap_servers),
                    CATALOG: catalog["uri"],
                    STORE: gateway.endpoint,
                    "max_age = 30.0": "max_age = 1.0",
                    PACKAGES: f'"spark.jars" = "{",".join(map(str, (*lake_jars(), *iceberg_aws_jars())))}"',
                },
            )
        )
        async with running(app_file, workers=1) as service, trio.open_nursery() as nursery:
            nursery.start_soon(service.fail_if_ended)
            await real_kafka_alone.until_committed("lake", COUNT * len(TOPICS), LAND_SECONDS)
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await service.stop()

        (reader,) = blocks(page("tables"), "python")
        found: dict[str, Any] = {}
        exec(replace_each(reader, {CATALOG: catalog["uri"], STORE: gateway.endpoint}), found)
        for topic in TOPICS:
            rows = found["catalog"].load_table(f"shop.{topic}").scan().to_arrow().to_pylist()
            assert {(row["partition"], row["offset"]) for row in rows} == written[topic]
            assert sorted(row["value"] for row in rows) == sorted(f'{{"number": {n}}}' for n in range(COUNT))
            assert {(row["topic"], row["key"] in row["value"]) for row in rows} == {(topic, True)}
        assert found["orders"].num_rows == COUNT

        with trio.fail_after(VERIFY_SECONDS):
            done = await trio.run_process([SARAMEYA, "verify", "--app", app_file, "--json"], capture_stdout=True)
    tables = json.loads(done.stdout)["tables"]
    assert [(table["table"], table["proved"], table["rows"]) for table in tables] == [
        (f"iceberg:lake.shop.{topic}", True, COUNT) for topic in TOPICS
    ]


def replace_each(text: str, replacements: Mapping[str, str]) -> str:
    """Replace each of these texts, which must occur exactly once."""
    for old, new in replacements.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
