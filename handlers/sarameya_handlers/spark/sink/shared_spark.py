"""A Spark shared by all workers of a supervisor: a Spark Connect server in a JVM of this process.

It listens on this machine only, and requires a token. It ends with this process, in whatever way that ends, like each
of our JVMs. If it dies earlier, it is restarted at the same port, so its clients can reconnect.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Any

import attrs
import trio

from sarameya import ConfigError
from sarameya_handlers.spark.engines import driver_start
from sarameya_handlers.spark.engines.classic import ClassicDriver
from sarameya_handlers.spark.engines.keeper import Keeper
from sarameya_handlers.spark.engines.pool import Check, Pool
from sarameya_handlers.spark.errors import SparkGoneError
from sarameya_handlers.spark.options import SparkOptions, spark_options
from sarameya_handlers.spark.sink.options import table_of
from sarameya_handlers.spark.tables.table import Table
from sarameya_handlers.spark.tables.topic_tables import TopicTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

CHECK_INTERVAL = 0.5
"""Seconds between two checks whether the server's JVM still runs."""
_PORT = "spark.connect.grpc.binding.port"
_CODECS = ("org.xerial.snappy.Snappy", "com.github.luben.zstd.Zstd")
"""Classes that unpack a native library at their first use. If the temporary directory is full then, the class fails for
the rest of the JVM's life. Only this process, which owns the JVM, can replace it; so it checks them."""


@asynccontextmanager
async def open_shared(options: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Start a shared Spark, if the option `share` is true or the table accepts only one driver.

    Args:
        options: The sink's options.

    Yields:
        The options that replace those of the workers; empty if no Spark is shared.

    Raises:
        ConfigError: The options contradict each other.
        HandlerError: Spark does not start.
    """
    spark = spark_options(options.get("spark", {}))
    if not (spark.share or _must_share(spark, table_of(options))):
        yield {}
        return
    async with serve(spark) as url:
        yield {"spark": {"master": url, "max_jobs": spark.max_jobs}}


def _must_share(spark: SparkOptions, table: Table | TopicTables) -> bool:
    tables = table.examples() if isinstance(table, TopicTables) else [table]
    single = next((each for each in tables if each.takes_one_driver(spark.properties)), None)
    if spark.is_connect or single is None:
        return False
    if spark.share is False:
        raise ConfigError(
            "spark.share", False, f"starts a driver for each worker, but {single.name} accepts only one: leave it out"
        )
    return True


@asynccontextmanager
async def serve(options: SparkOptions) -> AsyncIterator[str]:
    """Run a Spark Connect server during a block. Yields its address, with its token."""
    server = _Server(options, secrets.token_urlsafe())
    keeper = Keeper(server.start, driver_start.stop)
    try:
        await keeper.open()
        logger.info("Spark is shared: its Connect server listens at port %d", server.port)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keep_usable, keeper)
            yield f"sc://localhost:{server.port}/;token={server.token}"
            nursery.cancel_scope.cancel()
        logger.info("Spark is being stopped")
    finally:
        await keeper.close()


@attrs.define(slots=True)
class _Server:
    options: SparkOptions
    token: str
    port: int = 0
    """Port on which the server listens. 0, for any free port, before the first start."""

    async def start(self) -> Pool:
        environment = {"SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token}
        if "PYSPARK_PYTHON" not in os.environ:
            # The server chooses the Python that runs user functions: this process's.
            environment["PYSPARK_PYTHON"] = sys.executable
        options = attrs.evolve(self.options, conf={**self.options.conf, **self._conf()})
        running = await driver_start.start_jvm(options, environment)
        pool = Pool(ClassicDriver(running.session, running), 1)
        try:
            self.port = await trio.to_thread.run_sync(_port_of, running.session, abandon_on_cancel=True)
        except BaseException:
            await driver_start.stop(pool)
            raise
        return pool

    def _conf(self) -> dict[str, str | int | bool]:
        plugins = [str(self.options.conf.get("spark.plugins", "")), "org.apache.spark.sql.connect.SparkConnectPlugin"]
        return {
            "spark.plugins": ",".join(filter(None, plugins)),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            _PORT: self.port,
            # Spark sets these for a server that it starts itself.
            "spark.sql.artifact.isolation.enabled": True,
            "spark.sql.artifact.isolation.alwaysApplyClassloader": True,
        }


def _port_of(session: Any) -> int:
    service = getattr(session._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return int(service.__getattr__("MODULE$").localPort())


async def _keep_usable(keeper: Keeper) -> None:
    """Check the server repeatedly, and let the keeper replace it if it has died or cannot use a codec."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    while True:
        pool = await keeper.living_pool(inf)
        await trio.sleep(CHECK_INTERVAL)
        with suppress(SparkGoneError, Py4JError):
            await pool.run(_use_codecs, "check")


def _use_codecs(session: SparkSession, check: Check) -> None:
    for name in _CODECS:
        session._jvm.java.lang.Class.forName(name)  # type: ignore[union-attr]
