"""An Iceberg table on S3, in a REST catalog: its readers, its audit, and an unavailable store or catalog."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import count
from threading import Timer
from typing import Any

import attrs
import pytest
from pyiceberg.catalog import load_catalog

from sarameya_handlers import SparkOptions
from sarameya_handlers.landing.chain import Outcome, Settled
from sarameya_handlers.spark.engines.jvm import spark_jvm
from sarameya_handlers.spark.iceberg.table import IcebergTable
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.sink.flush import OnPhase
from sarameya_handlers.spark.tables.table import Phase
from tests.conformance.invariants import offsets, prove_audit, prove_chain, prove_rows
from tests.conformance.owners import KEY, Owner, at
from tests.conformance.results import row
from tests.integration.lakes import lake_properties
from tests.integration.lakes.catalogs import rest_catalog
from tests.integration.object_stores.gateway import Gateway
from tests.integration.object_stores.proxy import Fault, Proxy, proxy_of

pytestmark = [
    pytest.mark.integration,
    pytest.mark.cold,
    # pyspark causes it whenever rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

DAY = 24 * 3600
OUTAGE_SECONDS = 3.0
USUAL_OUTAGES = {("store", Phase.WRITTEN), ("catalog", Phase.LINKED)}
"""Outages that `make test` covers, too."""
SECONDS = 300.0
"""The longest time for a landing. A catalog waits for its store for a minute and a half."""
_names = count(1)


@attrs.define
class LostCommit:
    """Loses the response of one commit of a REST catalog: the one after `before` others."""

    before: int

    def __call__(self, method: str, path: str) -> Fault | None:
        if method != "POST" or "/tables/" not in path:
            return None
        self.before -= 1
        return Fault.LOST if self.before == -1 else None


@attrs.frozen
class Lake:
    """A Spark session whose catalog `ice` is a REST server behind a proxy."""

    spark: Any
    proxy: Proxy
    gateway: Gateway

    def end_outage(self) -> None:
        """End the outage of the catalog or of the store."""
        self.proxy.spoil = lambda method, path: None
        if not self.gateway.is_running:
            self.gateway.start()


@pytest.fixture(scope="module")
def lake(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    directory = tmp_path_factory.mktemp("lake")
    with pytest.MonkeyPatch.context() as patch, rest_catalog(directory, gateway) as catalog:
        gateway.set_environment(patch)
        with proxy_of(catalog["uri"]) as proxy:
            properties = lake_properties(directory, iceberg={**catalog, "uri": proxy.url})
            running = spark_jvm.start(SparkOptions(master="local[1]", conf=properties))
            try:
                yield Lake(running.session, proxy, gateway)
            finally:
                running.stop()


@pytest.fixture
def table(lake: Lake) -> IcebergTable:
    table = IcebergTable(f"ice.db.orders{next(_names)}")
    table.open(lake.spark)
    return table


def prove(lake: Lake, table: IcebergTable, end: int) -> None:
    prove_chain(table, lake.spark, KEY, end)
    prove_rows(table, lake.spark, offsets({KEY: end}))
    prove_audit(table, lake.spark)


def test_links_land_once_for_all_readers(lake: Lake, table: IcebergTable) -> None:
    owner, other = (Owner(table, lake.spark, Shaping()) for _ in range(2))
    assert owner.append(5).outcome is Outcome.LANDED
    assert other.append(5).outcome is Outcome.LOST, "to this owner the chain is still empty"
    assert other.append(5).outcome is Outcome.LANDED
    prove(lake, table, 10)
    s3 = {"s3.endpoint": lake.gateway.endpoint, "s3.access-key-id": "tests", "s3.secret-access-key": "secret-of-tests"}
    found = load_catalog("ice", type="rest", uri=lake.proxy.url, **s3).load_table(
        table.name.removeprefix("iceberg:ice.")
    )
    assert sorted(found.scan(selected_fields=("offset",)).to_arrow()["offset"].to_pylist()) == [*range(10)]


@pytest.mark.landing(what="store faults")
@row("Iceberg, REST catalog", "S3 gateway", "classic")
@pytest.mark.parametrize(
    ("what", "phase"),
    [
        pytest.param(
            what, phase, marks=[] if (what, phase) in USUAL_OUTAGES else pytest.mark.exhaustive, id=f"{what}-{phase}"
        )
        for what in ("store", "catalog")
        for phase in (Phase.STAGED, Phase.WRITTEN, Phase.LINKED)
    ],
)
def test_landing_continues_after_an_outage(lake: Lake, table: IcebergTable, what: str, phase: Phase) -> None:
    owner = Owner(table, lake.spark, Shaping())
    assert owner.append(5).outcome is Outcome.LANDED
    returns = Timer(OUTAGE_SECONDS, lake.end_outage)

    def start_outage() -> None:
        if what == "store":
            lake.gateway.kill()
        else:
            lake.proxy.spoil = lambda method, path: Fault.REFUSED
        returns.start()

    try:
        settled = land(owner, 5, at(phase, start_outage))
    finally:
        returns.join()
    assert settled.outcome is Outcome.LANDED
    assert owner.append(3).outcome is Outcome.LANDED
    prove(lake, table, 13)


def land(owner: Owner, count: int, on_phase: OnPhase) -> Settled:
    """Append a link like a sink: after an error, read the outcome, and retry if the link is absent."""
    end = time.monotonic() + SECONDS
    while True:
        try:
            settled = owner.settle(owner.unsettled) if owner.unsettled else owner.append(count, on_phase)
        except Exception:
            if time.monotonic() > end:
                raise
        else:
            if settled.outcome is not Outcome.ABSENT:
                return settled


@pytest.mark.landing(what="no response")
@row("Iceberg, REST catalog", "S3 gateway", "classic")
@pytest.mark.parametrize("lost", ["staged", "marked", "published"])
def test_commit_whose_response_is_lost_lands_once(lake: Lake, table: IcebergTable, lost: str) -> None:
    assert Owner(table, lake.spark, Shaping()).append(5).outcome is Outcome.LANDED
    next_owner = IcebergTable(table.name.removeprefix("iceberg:"))
    next_owner.open(lake.spark)
    owner = Owner(next_owner, lake.spark, Shaping())
    lake.proxy.spoil = loses = LostCommit(["staged", "marked", "published"].index(lost))
    settled, _ = owner.append_until_present(5)
    assert loses.before < 0, "a response was lost"
    assert settled.outcome is Outcome.LANDED
    assert owner.append(3).outcome is Outcome.LANDED
    prove(lake, table, 13)


def test_leftovers_in_the_store_are_removed(lake: Lake, table: IcebergTable) -> None:
    owner, late = (Owner(table, lake.spark, Shaping()) for _ in range(2))
    assert owner.append(5).outcome is Outcome.LANDED
    assert late.append(6).outcome is Outcome.LOST
    (data,) = lake.gateway.buckets.rglob(f"{table.name.rpartition('.')[2]}/data")
    orphan = data / "orphan.parquet"
    orphan.write_bytes(b"rows that nobody has committed")
    os.utime(orphan, (time.time() - 2 * DAY,) * 2)
    found = table.leftovers(lake.spark)
    assert {leftover.what for leftover in found} == {
        f"rows that were staged as link 1 of {KEY}, and never published",
        "a file that no snapshot names",
    }
    for leftover in found:
        table.remove(lake.spark, leftover)
    assert not orphan.exists()
    assert list(table.leftovers(lake.spark)) == []
    prove(lake, table, 5)
