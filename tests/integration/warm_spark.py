"""Classic Spark for tests, in one JVM for each process of the run: a context of its own for each, and a JVM that stays
warm. What a cold one has to learn takes it several times as long as the tests themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sarameya_handlers import SparkOptions
from sarameya_handlers.spark.engines.jvm import spark_jvm
from sarameya_handlers.spark.engines.jvm.spark_jvm import Jvm
from tests.integration.lakes import spark_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_warm: list[Jvm] = []


@contextmanager
def warm_spark(conf: Mapping[str, str] | None = None, *, master: str = "local[2]") -> Iterator[SparkSession]:
    """A session of a new context, which is stopped at the end. All tests' jars are there."""
    jars = {"spark.jars": ",".join(map(str, spark_jars()))}
    if not _warm:
        # Properties that a JVM is started with are of all its contexts: of the first one it has those of all.
        _warm.append(spark_jvm.start(SparkOptions(master="local[1]", conf=jars)))
        _warm[0].session.stop()
    running = spark_jvm.start(SparkOptions(master=master, conf={**(conf or {}), **jars}))
    try:
        yield running.session
    finally:
        running.stop()


def end_warm_spark() -> None:
    """Stop the shared Spark, for a test of how a JVM is started, or of the processes that this one has."""
    while _warm:
        _warm.pop().stop()
