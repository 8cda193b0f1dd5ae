"""A Spark shared by all workers: its start, its supervision, and the workers' options. The JVM is faked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import ConfigError, HandlerError
from sarameya_handlers import SparkOptions
from sarameya_handlers.spark.engines import driver_start
from sarameya_handlers.spark.engines.classic import ClassicDriver
from sarameya_handlers.spark.errors import SparkGoneError
from sarameya_handlers.spark.options import spark_options
from sarameya_handlers.spark.sink import shared_spark
from sarameya_handlers.spark.sink.shared_spark import open_shared


@attrs.define(eq=False)
class FakeJvm:
    """A JVM with Spark. The supervisor checks whether it still runs."""

    options: SparkOptions
    environment: dict[str, str]
    died: str | None = None
    is_broken: bool = False
    stops: int = 0

    @property
    def session(self) -> FakeJvm:
        return self

    @property
    def sparkContext(self) -> FakeJvm:
        return self

    @property
    def _jsc(self) -> FakeJvm:
        return self

    def sc(self) -> FakeJvm:
        return self

    def isStopped(self) -> bool:
        return False

    @property
    def _jvm(self) -> FakeJvm:
        return self

    java = lang = Class = _jvm

    def forName(self, name: str) -> None:
        if self.is_broken:
            raise OSError(f"java.lang.NoClassDefFoundError: Could not initialize class {name}")

    def addJobTag(self, tag: str) -> None:
        pass

    def removeJobTag(self, tag: str) -> None:
        pass

    @property
    def has_died(self) -> bool:
        return self.died is not None

    def death(self, within: float) -> str | None:
        return self.died

    def stop(self, *, is_dead: bool = False) -> None:
        self.stops += 1

    def kill(self) -> None:
        raise AssertionError


@attrs.define(eq=False)
class FakeJvms:
    all: list[FakeJvm] = attrs.field(factory=list)
    error: Exception | None = None

    async def start(self, options: SparkOptions, environment: dict[str, str]) -> FakeJvm:
        if self.error is not None:
            raise self.error
        self.all.append(FakeJvm(options, environment))
        return self.all[-1]


async def inline(function: Any, *args: Any, **_: object) -> Any:
    await trio.lowlevel.checkpoint()
    return function(*args)


def open_session(driver: ClassicDriver) -> Any:
    if cause := driver.death(driver.base):
        raise SparkGoneError(cause, begun=False)
    return driver.base


@pytest.fixture
def jvms(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeJvms]:
    fake = FakeJvms()
    monkeypatch.setattr(driver_start, "start_jvm", fake.start)
    monkeypatch.setattr(shared_spark, "_port_of", lambda session: 33_000)
    # Virtual time does not wait for threads.
    monkeypatch.setattr(trio.to_thread, "run_sync", inline)
    monkeypatch.setattr(trio.from_thread, "check_cancelled", lambda: None)
    monkeypatch.setattr(ClassicDriver, "open_session", open_session)
    yield fake
    assert all(jvm.stops == 1 for jvm in fake.all)


SHARED = {"spark": {"master": "local[2]", "share": True, "max_jobs": 3, "conf": {"spark.plugins": "a.B", "spark.c": 1}}}


@pytest.mark.parametrize("options", [{"path": "x"}, {"path": "x", "spark": {"master": "local[2]"}}])
async def test_unshared_spark_is_not_started(jvms: FakeJvms, options: dict[str, Any]) -> None:
    async with open_shared(options) as changes:
        assert changes == {}
    assert jvms.all == []


LAKE = {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}
HADOOP = {**LAKE, "spark.sql.catalog.lake.type": "hadoop", "spark.sql.catalog.lake.warehouse": "/lake"}


@pytest.mark.parametrize(
    "options",
    [
        {"table": "delta:./orders"},
        {"table": "delta:file:///lake/orders", "spark": {"master": "spark://host:7077"}},
        {"table": "iceberg:lake.shop.orders", "spark": {"conf": HADOOP}},
        {"table": "delta:./orders", "single_driver": True},
        {"table": "delta:s3a://lake/orders", "single_driver": True},
    ],
    ids=["delta", "delta on a cluster", "iceberg in files", "single_driver", "single_driver on a store"],
)
async def test_spark_is_shared_if_the_table_accepts_one_driver_only(jvms: FakeJvms, options: dict[str, Any]) -> None:
    async with open_shared(options) as changes:
        assert spark_options(changes["spark"]).is_connect
    spark = {**options.get("spark", {}), "share": False}
    with pytest.raises(ConfigError, match=r"spark.share = False: starts a driver for each worker, but .* only one"):
        async with open_shared({**options, "spark": spark}):
            raise AssertionError("unreachable")
    assert len(jvms.all) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"table": "parquet:./orders"},
        {"path": "orders"},
        {"table": "delta:s3a://lake/orders"},
        {"table": "delta:shop.orders"},
        {"table": "parquet:./orders", "spark": {"share": False}},
        {"table": "delta:./orders", "spark": "sc://localhost:1"},
        {"table": "iceberg:lake.shop.orders"},
        {"table": "iceberg:lake.shop.orders", "spark": {"conf": {**LAKE, "spark.sql.catalog.lake.type": "rest"}}},
    ],
)
async def test_worker_has_its_own_spark_if_none_must_be_shared(jvms: FakeJvms, options: dict[str, Any]) -> None:
    async with open_shared(options) as changes:
        assert changes == {}
    assert jvms.all == []


async def test_workers_get_the_server_address_and_its_token(jvms: FakeJvms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    async with open_shared(SHARED) as changes:
        (jvm,) = jvms.all
        token = jvm.environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"]
        assert len(token) > 30
        assert changes == {"spark": {"master": f"sc://localhost:33000/;token={token}", "max_jobs": 3}}
        assert spark_options(changes["spark"]).is_connect
        assert "PYSPARK_PYTHON" in jvm.environment
        properties = jvm.options.properties
        assert token not in str(properties)
        assert properties["spark.plugins"] == "a.B,org.apache.spark.sql.connect.SparkConnectPlugin"
        assert properties["spark.connect.grpc.binding.address"] == "127.0.0.1"
        assert properties["spark.connect.grpc.binding.port"] == "0"
        assert properties["spark.c"] == "1"


async def test_dead_server_is_restarted_with_its_port_and_token(jvms: FakeJvms, autojump_clock: MockClock) -> None:
    async with open_shared(SHARED):
        jvms.all[0].died = "Spark's JVM has died"
        await trio.sleep(5 * shared_spark.CHECK_INTERVAL)
        first, second = jvms.all
        assert first.stops == 1
        assert second.environment == first.environment
        assert second.options.properties["spark.connect.grpc.binding.port"] == "33000"


async def test_fault_64_server_with_an_unusable_class_is_replaced(
    jvms: FakeJvms, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients get the error of the class, but cannot replace the server."""
    async with open_shared(SHARED):
        jvms.all[0].is_broken = True
        await trio.sleep(5 * shared_spark.CHECK_INTERVAL)
        assert [jvm.stops for jvm in jvms.all] == [1, 0]
    assert "can never use the class org.xerial.snappy.Snappy again" in caplog.text


async def test_failed_server_restart_is_retried_without_limit(jvms: FakeJvms, autojump_clock: MockClock) -> None:
    async with open_shared(SHARED):
        jvms.all[0].died = "Spark's JVM has died"
        jvms.error = HandlerError("the port is taken")
        await trio.sleep(600.0)
        jvms.error = None
        await trio.sleep(60.0)
        assert len(jvms.all) == 2


async def test_failed_server_start_is_raised(jvms: FakeJvms) -> None:
    jvms.error = HandlerError("no Java")
    with pytest.raises(HandlerError, match="no Java"):
        async with open_shared(SHARED):
            pass


@pytest.mark.parametrize(
    ("spark", "expected"),
    [
        ({"share": "yes"}, "share = 'yes': must be true or false"),
        ({"master": "sc://localhost:1", "share": True}, "share = True: is not for a Spark Connect server"),
    ],
)
def test_invalid_share_option_is_refused(spark: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        spark_options(spark)
