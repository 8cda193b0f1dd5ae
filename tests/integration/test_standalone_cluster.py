"""A sink whose Spark is a cluster of machines without a common disk: the lake and staged records are on S3."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from tests.integration.object_stores.connector import connector_jars, s3_conf
from tests.integration.object_stores.gateway import Gateway
from tests.integration.spark_service import Service, outside_tmp, spark_service
from tests.integration.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.integration, pytest.mark.cold]

COUNT = 20


@pytest.fixture
def cluster() -> Iterator[StandaloneCluster]:
    with outside_tmp() as directory, StandaloneCluster(directory) as running:
        yield running


def installed(conf: dict[str, str]) -> str:
    """Return Spark's properties for jars that each machine has, as entries of a TOML inline table."""
    jars = ":".join(map(str, connector_jars()))
    conf = {name: value for name, value in conf.items() if name != "spark.jars"}
    conf |= {"spark.driver.extraClassPath": jars, "spark.executor.extraClassPath": jars}
    conf |= {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    return ", ".join(f'"{name}" = "{value}"' for name, value in conf.items())


async def land_while(service: Service, disturb: Callable[[], None]) -> None:
    """Produce, disturb the cluster meanwhile, and wait until all records have landed."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.produce_and_land, COUNT)
        await trio.to_thread.run_sync(disturb)


async def test_chain_holds_when_machines_of_the_cluster_are_killed(
    cluster: StandaloneCluster, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.set_environment(monkeypatch)
    bucket = gateway.make_bucket()
    table = gateway.buckets / bucket.removeprefix("s3://") / "orders"
    async with spark_service(
        tmp_path,
        table=table,
        url=f"{bucket}/orders",
        spark=f'master = "{cluster.url}"',
        conf=installed(s3_conf()),
        options="store = { trusted = true }",
    ) as service:
        await service.produce_and_land(COUNT)
        await land_while(service, cluster.workers[0].kill)
        await trio.to_thread.run_sync(cluster.workers[0].start)
        await land_while(service, cluster.master.kill)
        await trio.to_thread.run_sync(cluster.master.start)
        await service.produce_and_land(COUNT)
        [driver] = service.jvms()
        await land_while(service, lambda: os.kill(driver, signal.SIGKILL))
    assert not [*table.glob("_sarameya/staging/*")], "staged records are removed"
