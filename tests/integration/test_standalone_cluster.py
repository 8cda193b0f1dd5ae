"""A sink whose Spark is a cluster of machines without a common disk: the lake and staged records are on S3."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import trio

from sarameya_handlers import DeltaTable, IcebergTable, ParquetTable, StoreOptions
from sarameya_handlers.landing.chain import Outcome
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Phase, Table
from tests.conformance.invariants import offsets, prove_chain, prove_rows
from tests.conformance.owners import KEY, Owner, at
from tests.conformance.results import DELTA, row
from tests.integration.connect_server import ConnectServer
from tests.integration.lakes.catalogs import rest_catalog
from tests.integration.lakes.properties import lake_properties
from tests.integration.object_stores.connector import s3_conf
from tests.integration.object_stores.gateway import Gateway
from tests.integration.real_kafka.node import HOST
from tests.integration.spark_service import Service, outside_tmp, spark_service, with_small_disks
from tests.integration.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.integration, pytest.mark.cold]

COUNT = 20
BY_SPARK = Shaping(transform_sql="select * from batch")


@pytest.fixture
def directory() -> Iterator[Path]:
    with outside_tmp() as directory:
        yield directory


@pytest.fixture
def cluster(directory: Path, bucket: str) -> Iterator[StandaloneCluster]:
    """Return a cluster whose machines have the store's credentials in their environment."""
    with StandaloneCluster(directory) as running:
        yield running


@pytest.fixture
def bucket(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> str:
    gateway.set_environment(monkeypatch)
    return gateway.make_bucket()


def installed(*properties: Mapping[str, str]) -> dict[str, str]:
    """Return these properties, with their jars as ones that each machine has."""
    jars = {jar for some in properties for jar in some["spark.jars"].split(",")}
    conf = {name: value for some in properties for name, value in some.items() if name != "spark.jars"}
    path = ":".join(sorted(jars))
    return conf | {
        "spark.driver.extraClassPath": path,
        "spark.executor.extraClassPath": path,
        "spark.executor.memory": "512m",
        "spark.driver.host": HOST,
    }


async def land_while(service: Service, disturb: Callable[[], None]) -> None:
    """Produce, disturb the cluster meanwhile, and wait until all records have landed."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.produce_and_land, COUNT)
        await trio.to_thread.run_sync(disturb)


@pytest.mark.landing(what="Spark dies")
@row("Parquet", "S3 gateway", "standalone cluster")
async def test_chain_holds_when_machines_of_the_cluster_are_killed(
    cluster: StandaloneCluster, gateway: Gateway, bucket: str, tmp_path: Path
) -> None:
    table = gateway.buckets / bucket.removeprefix("s3://") / "orders"
    async with spark_service(
        tmp_path,
        table=table,
        url=f"{bucket}/orders",
        spark=f'master = "{cluster.url}"',
        conf=", ".join(f'"{name}" = "{value}"' for name, value in installed(s3_conf()).items()),
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
    assert [*table.glob("part-*.parquet")]
    assert not [*table.glob("_sarameya/staging/*")], "staged records are removed"


BEHIND_CONNECT = "standalone cluster, Connect"


class KilledError(Exception):
    """Raised in place of the end of a member that is killed with its Connect server."""


def die_with(server: ConnectServer) -> None:
    server.kill()
    server.start()  # the old session could not be closed otherwise
    raise KilledError


def table_of(kind: str, bucket: str) -> Table:
    match kind:
        case "parquet":
            return ParquetTable(f"{bucket}/orders", store=StoreOptions(trusted=True))
        case "delta":
            return DeltaTable(f"{bucket}/orders", store=StoreOptions(trusted=True))
        case _:
            return IcebergTable("ice.db.orders", staging=f"{bucket}/staging")


@pytest.mark.landing(what="Spark dies")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("delta", marks=row(DELTA, "S3 gateway", BEHIND_CONNECT)),
        pytest.param("parquet", marks=[row("Parquet", "S3 gateway", BEHIND_CONNECT), pytest.mark.exhaustive]),
        pytest.param(
            "iceberg", marks=[row("Iceberg, REST catalog", "S3 gateway", BEHIND_CONNECT), pytest.mark.exhaustive]
        ),
    ],
)
def test_chain_holds_when_connect_server_of_the_cluster_is_killed(
    kind: str, cluster: StandaloneCluster, gateway: Gateway, bucket: str, directory: Path, tmp_path: Path
) -> None:
    own_disk = with_small_disks(Path("/tmp"), options=",size=1g")
    with rest_catalog(tmp_path, gateway) as catalog:
        properties = installed(lake_properties(directory, iceberg=catalog), s3_conf())
        with ConnectServer(directory / "connect", properties, master=cluster.url, before=own_disk) as server:
            for start in (0, 10):
                with server.session() as spark:
                    table = table_of(kind, bucket)
                    table.open(spark)
                    owner = Owner(table, spark, BY_SPARK)
                    assert owner.position == start
                    assert owner.append(10).outcome is Outcome.LANDED, repr(owner.error)
                    with pytest.raises(KilledError):
                        owner.land(owner.propose(5), at(Phase.WRITTEN, lambda: die_with(server)))
            with server.session() as spark:
                table.open(spark)
                prove_chain(table, spark, KEY, 20)
                prove_rows(table, spark, offsets({KEY: 20}))
    assert list(table.staging.leftovers()) == []
