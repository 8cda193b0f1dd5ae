"""Classic Spark for tests: each test has a context of its own, all tests of a process share one warm JVM.

The warm-up of a cold JVM takes several times as long as the tests themselves.
"""

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
    """Offer a session of a new context with the jars of all tests; stop the context at the end."""
    jars = {"spark.jars": ",".join(map(str, spark_jars()))}
    if not _warm:
        # The properties of a JVM's start apply to all its contexts. So start it with those that every test needs.
        _warm.append(spark_jvm.start(SparkOptions(master="local[1]", conf=jars)))
        _warm[0].session.stop()
    running = spark_jvm.start(SparkOptions(master=master, conf={**(conf or {}), **jars}))
    try:
        yield running.session
    finally:
        running.stop()


def end_warm_spark() -> None:
    """Stop the shared JVM, for a test of the start of a JVM or of the child processes."""
    while _warm:
        _warm.pop().stop()
