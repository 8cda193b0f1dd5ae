"""Delta or Iceberg without its jars, or with wrong ones: exit code 2 at once, with the settings to add."""

from __future__ import annotations

import re
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from tests.integration.lakes import lake_jars
from tests.integration.test_run_command import Running, app_file, sarameya

pytestmark = [pytest.mark.integration, pytest.mark.cold]

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@asynccontextmanager
async def landing(directory: Path, table: str, conf: dict[str, str]) -> AsyncIterator[Running]:
    """Run `sarameya land` from a topic with one record to this table."""
    async with EmbeddedCluster({"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"a record")
        words = ["land", "--bootstrap", cluster.bootstrap_servers[0], "--group", "g", "--topic", "orders"]
        words += ["--to", table, "--spark", "local[1]", "--set", "max_age=0.5", "--set", f"staging={directory}/stage"]
        words += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        async with sarameya(directory, *words, deadline=240) as running:
            yield running


async def refused(running: Running) -> str:
    """Check that the run ends with exit code 2 and no stack trace. Return its output."""
    assert await running.process.wait() == 2, running.stderr
    assert "\tat " not in running.stderr
    assert "Caused by" not in running.stderr
    return running.stderr


async def test_delta_without_its_jars_is_refused_with_advice(tmp_path: Path) -> None:
    async with landing(tmp_path, f"delta:{tmp_path}/table", {}) as running:
        output = await refused(running)
    assert re.search(r"--conf spark\.jars\.packages=io\.delta:delta-spark_4\.1_2\.13:\d+\.\d+\.\d+\n", output)
    for key, value in DELTA.items():
        assert f"--conf {key}={value}\n" in output
        assert f'"{key}" = "{value}"\n' in output
    assert output.count("sarameya: error: ") == 1
    assert "starting Spark" in output
    assert re.search(r"Spark is ready after \d+", output)


async def test_delta_with_settings_and_no_jars_is_refused(tmp_path: Path) -> None:
    async with landing(tmp_path, f"delta:{tmp_path}/table", DELTA) as running:
        assert "--conf spark.jars.packages=io.delta:delta-spark" in await refused(running)


async def test_delta_with_jars_and_no_settings_is_refused(tmp_path: Path) -> None:
    jars = {"spark.jars": ",".join(map(str, lake_jars()))}
    async with landing(tmp_path, f"delta:{tmp_path}/table", jars) as running:
        output = await refused(running)
    assert "--conf spark.jars.packages" not in output, "the jars are there"
    assert "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension\n" in output


async def test_iceberg_without_its_jars_is_refused_with_advice(tmp_path: Path) -> None:
    conf = {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog", "spark.sql.catalog.lake.type": "hadoop"}
    conf["spark.sql.catalog.lake.warehouse"] = str(tmp_path / "warehouse")
    async with landing(tmp_path, "iceberg:lake.db.orders", conf) as running:
        output = await refused(running)
    assert re.search(r"--conf spark\.jars\.packages=org\.apache\.iceberg:iceberg-spark-runtime-4\.1_2\.13:\d", output)


async def test_wrong_jar_is_refused_and_not_retried(tmp_path: Path) -> None:
    """A class of Delta is missing, as if its jar were for another version of Spark."""
    jars = [jar for jar in lake_jars() if "delta-spark" not in jar.name]
    (delta,) = (jar for jar in lake_jars() if "delta-spark" in jar.name)
    with zipfile.ZipFile(delta) as whole, zipfile.ZipFile(cut := tmp_path / "delta-cut.jar", "w") as part:
        for name in whole.namelist():
            if "OptimisticTransaction" not in name:
                part.writestr(name, whole.read(name))
    conf = {**DELTA, "spark.jars": ",".join(map(str, [*jars, cut]))}
    async with landing(tmp_path, f"delta:{tmp_path}/table", conf) as running:
        output = await refused(running)
    assert "NoClassDefFoundError" in output or "ClassNotFoundException" in output
    assert "retrying in" not in output
    assert "jars" in output


async def test_run_command_gives_the_same_advice(tmp_path: Path) -> None:
    async with EmbeddedCluster({"orders": 1}) as cluster:
        app = app_file(tmp_path, cluster.bootstrap_servers, handler="spark")
        text = await trio.Path(app).read_text() + f'\n[handler.options]\ntable = "delta:{tmp_path}/table"\n'
        text += '[handler.options.spark]\nmaster = "local[1]"\n[service]\non_failure = "restart"\nlog_format = "text"\n'
        await trio.Path(app).write_text(text)
        async with sarameya(tmp_path, "run", app, deadline=240) as running:
            assert "[handler.options.spark.conf]" in await refused(running)
