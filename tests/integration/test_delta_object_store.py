"""A Delta table in an object store: its readers, its checkpoints, its audit, and an unavailable store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import deltalake
import pytest

from sarameya import HandlerError
from sarameya_handlers import SparkOptions, StoreOptions
from sarameya_handlers.landing.chain import Outcome
from sarameya_handlers.landing.links import ChainKey, Kind
from sarameya_handlers.landing.stores import clients
from sarameya_handlers.spark.delta.history.checkpoints import commit_file
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.engines.jvm import spark_jvm
from sarameya_handlers.spark.shaping.errors import SchemaMismatchError
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.sink.flush import flush
from sarameya_handlers.spark.tables.table import Landing, PendingLink, Phase
from tests.conformance.contenders import rows_by_spark
from tests.conformance.invariants import offsets, prove_audit, prove_chain, prove_rows
from tests.conformance.owners import KEY, Owner, records
from tests.conformance.results import DELTA, row
from tests.integration.lakes.properties import lake_properties
from tests.integration.object_stores.connector import s3_conf
from tests.integration.object_stores.gateway import Gateway
from tests.integration.object_stores.outage import land_while_away

pytestmark = [
    pytest.mark.integration,
    pytest.mark.cold,
    # pyspark causes it whenever rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

BY_SPARK = Shaping(transform=rows_by_spark)


@pytest.fixture(scope="module")
def spark(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        gateway.set_environment(patch)
        lake, s3 = lake_properties(tmp_path_factory.mktemp("warehouse")), s3_conf()
        conf = {**lake, **s3, "spark.jars": f"{lake['spark.jars']},{s3['spark.jars']}"}
        running = spark_jvm.start(SparkOptions(master="local[1]", conf=conf))
        yield running.session
        running.stop()


@pytest.fixture
def url(gateway: Gateway, spark: Any) -> str:
    return f"{gateway.make_bucket()}/lake/orders"


def opened(url: str, spark: Any, staging: Path, **options: Any) -> DeltaTable:
    table = DeltaTable(url, store=StoreOptions(trusted=True), staging=staging, **options)
    table.open(spark)
    return table


def by_delta_rs(table: DeltaTable) -> list[int]:
    assert table._store is not None
    read = deltalake.DeltaTable(table._store.place, storage_options=table._store.delta_options())
    found: list[int] = read.to_pyarrow_table(columns=["offset"])["offset"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("shape", [Shaping(), BY_SPARK], ids=["plain", "transform"])
def test_links_land_once_for_all_readers(url: str, spark: Any, tmp_path: Path, shape: Shaping) -> None:
    table = opened(url, spark, tmp_path)
    owner, other = Owner(table, spark, shape), Owner(opened(url, spark, tmp_path), spark, shape)
    assert owner.append(5).outcome is Outcome.LANDED
    assert other.append(5).outcome is Outcome.LOST, "to this owner the chain is still empty"
    assert other.append(5).outcome is Outcome.LANDED
    prove_chain(table, spark, KEY, 10)
    prove_rows(table, spark, offsets({KEY: 10}))
    prove_audit(table, spark)
    assert by_delta_rs(table) == [*range(10)]
    assert list(table.leftovers(spark)) == []


def test_checkpoint_of_delta_rs_replaces_commits_for_spark(url: str, spark: Any, tmp_path: Path) -> None:
    table = opened(url, spark, tmp_path)
    owner = Owner(table, spark, Shaping())
    assert owner.append(1).outcome is Outcome.LANDED
    spark.sql(f"ALTER TABLE {table._place.sql} SET TBLPROPERTIES ('delta.checkpointInterval' = '5')")
    for _ in range(9):
        assert owner.append(1).outcome is Outcome.LANDED
    store = table._store
    assert store is not None
    assert store.is_there("_delta_log/_last_checkpoint")
    for version in range(9):
        store.remove(commit_file(version))
    spark.sql("CLEAR CACHE")
    assert spark.newSession().read.format("delta").load(table._place.location).count() == 10
    assert owner.append(1).outcome is Outcome.LANDED
    assert by_delta_rs(table) == [*range(11)]


@pytest.mark.landing(what="store faults")
@row(DELTA, "S3 gateway", "classic")
@pytest.mark.parametrize("phase", [Phase.STAGED, Phase.READY, Phase.LINKED])
def test_landing_continues_after_an_outage_of_the_store(
    url: str, spark: Any, tmp_path: Path, gateway: Gateway, phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_RETRIES", 1)
    table = opened(url, spark, tmp_path)
    owner = Owner(table, spark, Shaping())
    assert owner.append(5).outcome is Outcome.LANDED
    end = land_while_away(owner, gateway, phase)
    assert owner.append(3).outcome is Outcome.LANDED
    prove_chain(table, spark, KEY, end + 3)
    prove_rows(table, spark, offsets({KEY: end + 3}))


def test_extra_column_is_refused_and_missing_one_accepted(url: str, spark: Any, tmp_path: Path) -> None:
    owner = Owner(opened(url, spark, tmp_path), spark, BY_SPARK)
    assert owner.append(1).outcome is Outcome.LANDED
    wider = Owner(opened(url, spark, tmp_path), spark, Shaping())
    assert wider.append(1).outcome is Outcome.ABSENT
    with pytest.raises(SchemaMismatchError, match="timestampType"):
        raise wider.error or AssertionError("it landed")
    spark.sql(f"ALTER TABLE delta.`{url.replace('s3:', 's3a:')}` ADD COLUMNS (region STRING)")
    assert owner.append(1).outcome is Outcome.LANDED


def test_table_with_a_constraint_is_refused(url: str, spark: Any, tmp_path: Path) -> None:
    owner = Owner(opened(url, spark, tmp_path), spark, Shaping())
    assert owner.append(1).outcome is Outcome.LANDED
    spark.sql(f"ALTER TABLE delta.`{url.replace('s3:', 's3a:')}` ADD CONSTRAINT positive CHECK (offset >= 0)")
    assert owner.append(1).outcome is Outcome.ABSENT
    with pytest.raises(HandlerError, match=r"the property delta.constraints.positive needs commits of Spark"):
        raise owner.error or AssertionError("it landed")


def test_batches_of_several_partitions_are_written_by_one_job(url: str, spark: Any, tmp_path: Path) -> None:
    table = opened(url, spark, tmp_path)
    keys = [ChainKey(KEY.sink, KEY.topic, partition) for partition in range(3)]
    owners = [Owner(table, spark, BY_SPARK, key=key) for key in keys]
    pending = [PendingLink(link, records(link.key, range(5), link.attempt)) for link in (o.propose(5) for o in owners)]
    flush(spark, lambda: None, pending=pending, table=table, shape=BY_SPARK, on_phase=lambda phase, landings: None)
    for key in keys:
        prove_chain(table, spark, key, 5)
    prove_rows(table, spark, offsets(dict.fromkeys(keys, 5)))
    assert list(table.leftovers(spark)) == []


def test_head_is_restated_without_a_sink(url: str, spark: Any, tmp_path: Path) -> None:
    """`sarameya sweep --execute` does the same."""
    assert Owner(opened(url, spark, tmp_path), spark, Shaping()).append(5).outcome is Outcome.LANDED
    table = DeltaTable(url, store=StoreOptions(trusted=True))
    table.open_unstaged(spark)
    head = table.heads(spark, [KEY])[KEY]
    restated = attrs.evolve(
        head,
        number=2,
        from_offset=head.to_offset,
        attempt=uuid4().hex,
        kind=Kind.RESTATED,
        rows=0,
        records=-1,
        size_bytes=0,
    )
    table.land(spark, [Landing(link=restated, staged=None)], Shaping(), lambda phase, landings: None)
    assert table.heads(spark, [KEY])[KEY].attempt == restated.attempt


def test_data_of_a_lost_write_is_swept(url: str, spark: Any, tmp_path: Path) -> None:
    table = opened(url, spark, tmp_path)
    assert Owner(table, spark, Shaping()).append(5).outcome is Outcome.LANDED
    store = table._store
    assert store is not None
    lost = f"part-00000-{uuid4()}-c000.snappy.parquet"
    store.put_over(lost, b"rows")
    assert [one.name for one in table.leftovers(spark)] == [f"{store.place}/{lost}"]
    for one in table.leftovers(spark):
        table.remove(spark, one)
    assert not store.is_there(lost)
    assert by_delta_rs(table) == [*range(5)]
