"""A Parquet table in an object store that is down or does not respond; and readers of such a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import polars
import pyarrow.dataset as ds
import pyarrow.fs
import pytest

from sarameya.service.cli import main
from sarameya_handlers import ParquetTable, SparkOptions, StoreOptions, landed_files, read_landing
from sarameya_handlers.landing.chain import Outcome
from sarameya_handlers.landing.stores import clients
from sarameya_handlers.spark.engines.jvm import spark_jvm
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Phase
from tests.conformance.invariants import offsets, prove_audit, prove_chain, prove_rows
from tests.conformance.owners import KEY, Owner, at
from tests.conformance.results import row
from tests.handlers.spark.parquet.lander import Lander
from tests.integration.object_stores.connector import s3_conf
from tests.integration.object_stores.gateway import ACCESS_KEY, REGION, SECRET_KEY, Gateway
from tests.integration.object_stores.outage import land_while_away

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves sockets open when rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

READS = 3
FROZEN_SECONDS = 3.0


@pytest.fixture
def bucket(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> str:
    gateway.set_environment(monkeypatch)
    return gateway.make_bucket()


@pytest.fixture
def table(bucket: str, tmp_path: Path) -> ParquetTable:
    return ParquetTable(f"{bucket}/lake/orders", store=StoreOptions(trusted=True), staging=tmp_path)


def prove(table: ParquetTable, end: int) -> None:
    prove_chain(table, None, KEY, end)
    prove_rows(table, None, offsets({KEY: end}))
    prove_audit(table, None)


@pytest.mark.landing(what="store faults")
@row("Parquet", "S3 gateway", "none")
@pytest.mark.parametrize("phase", [Phase.STAGED, Phase.WRITTEN, Phase.LINKED])
def test_landing_continues_after_the_store_was_down(
    table: ParquetTable, gateway: Gateway, phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_RETRIES", 1)
    table.open(None)  # type: ignore[arg-type]
    owner = Owner(table, None, Shaping())
    assert owner.append(5).outcome is Outcome.LANDED
    end = land_while_away(owner, gateway, phase)
    assert owner.append(3).outcome is Outcome.LANDED
    prove(table, end + 3)


@pytest.mark.landing(what="store faults")
@row("Parquet", "S3 gateway", "none")
def test_request_executed_after_its_timeout_loses_nothing(
    bucket: str, tmp_path: Path, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_RESPONSE_SECONDS", 1)
    monkeypatch.setattr(clients, "_RETRIES", 0)
    table = ParquetTable(f"{bucket}/lake/orders", store=StoreOptions(trusted=True), staging=tmp_path)
    table.open(None)  # type: ignore[arg-type]
    owner = Owner(table, None, Shaping())
    assert owner.append(5).outcome is Outcome.LANDED
    for _ in range(3):
        thaw = Timer(FROZEN_SECONDS, gateway.thaw)
        link = owner.propose(5)
        try:
            with pytest.raises(OSError, match="orders"):
                owner.land(link, at(Phase.WRITTEN, gateway.freeze))
        finally:
            thaw.start()
            thaw.join()
        owner.settle(link)
        assert owner.append(2).outcome in (Outcome.LANDED, Outcome.LOST)
    assert owner.append(1).outcome is Outcome.LANDED
    prove(table, owner.position)


def test_table_url_is_accepted_by_verify_compact_and_sweep(
    table: ParquetTable, capsys: pytest.CaptureFixture[str]
) -> None:
    lander = Lander(table)
    for _ in range(4):
        lander.land()
    url = f"parquet:{table.store.place}"
    assert main(["compact", url, "--quiet"]) == 0
    assert "4 files became 1" in capsys.readouterr().out
    assert main(["sweep", url, "--older-than", "0s", "--force", "--execute", "--quiet"]) == 0
    assert "an early version wrote it" in capsys.readouterr().out, "files of lost attempts have no number"
    assert main(["verify", url, "--quiet"]) == 0
    assert len([name for name in table.store.entries("") if name.endswith(".parquet")]) == 1


def s3() -> pyarrow.fs.S3FileSystem:
    endpoint = "127.0.0.1:" + s3_conf()["spark.hadoop.fs.s3a.endpoint"].rpartition(":")[2]
    return pyarrow.fs.S3FileSystem(
        access_key=ACCESS_KEY, secret_key=SECRET_KEY, region=REGION, endpoint_override=endpoint, scheme="http"
    )


def by_pyarrow(url: str) -> list[int]:
    place = url.removeprefix("s3://")
    return ds.dataset(place, format="parquet", filesystem=s3()).to_table(["offset"])["offset"].to_pylist()  # type: ignore[no-any-return]


def by_polars(url: str) -> list[int]:
    return polars.scan_parquet(f"{url}/*.parquet").select("offset").collect()["offset"].to_list()


def by_polars_of_landed_files(url: str) -> list[int]:
    while True:
        try:
            return polars.scan_parquet(landed_files(url)).select("offset").collect()["offset"].to_list()
        except FileNotFoundError:  # a file was published meanwhile
            continue


@pytest.mark.parametrize("read", [by_pyarrow, by_polars, by_polars_of_landed_files])
def test_readers_see_each_row_once_during_landings(table: ParquetTable, read: Callable[[str], list[int]]) -> None:
    lander = Lander(table)
    with lander.landing():
        for _ in range(READS):
            landed = lander.landed
            times = Counter(read(table.store.place))
            assert set(times.values()) == {1}
            assert set(range(landed)) <= set(times)


@pytest.fixture
def spark(bucket: str) -> Iterator[Any]:
    running = spark_jvm.start(SparkOptions(master="local[2]", conf=s3_conf()))
    yield running.session
    running.stop()


@pytest.mark.cold
def test_spark_sees_each_row_once_during_landings(spark: Any, table: ParquetTable) -> None:
    lander = Lander(table)
    plain = table.store.spark_url("").rstrip("/")
    readers: list[Callable[[], Any]] = [
        lambda: spark.read.parquet(plain),
        lambda: read_landing(spark, table.store.place),
    ]
    with lander.landing():
        for read in readers * READS:
            landed = lander.landed
            times = Counter(row[0] for row in read().select("offset").collect())
            assert set(times.values()) == {1}
            assert set(range(landed)) <= set(times)
