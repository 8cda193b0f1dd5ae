"""Input, output, Spark options and stopwatch of both landing programs.

Input: one argument, a `Task` as JSON. Output: one line of JSON, an `Outcome`; standard error is for people.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import cattrs

from bench.common.processes import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sarameya_handlers import SparkOptions


@attrs.frozen
class Source:
    """A full topic."""

    topic: str
    ends: tuple[int, ...]
    """Each partition's log end offset."""


@attrs.frozen
class Task:
    """Topics to land, and where and how."""

    bootstrap: str
    group: str
    """Prefix of the names of consumer groups. None of them exists yet."""
    warm: Source
    """Topic that lands first, before the clock starts."""
    full: Source
    """Topic that is measured."""
    directory: str
    """An empty directory. `full` lands in its subdirectory TABLE, unless there is a `store`."""
    master: str
    driver_memory: str
    kind: str = "parquet"
    """Kind of the table: "parquet" or "delta"."""
    is_parsed: bool = False
    """True if `bench.common.events.parse` makes rows of the records. Otherwise the records land as they are."""
    store: str = ""
    """Prefix of two buckets, in the store of the environment. `full` lands in the one whose name ends with TABLE."""
    jars: tuple[str, ...] = ()
    """Jars of the Kafka source, of Delta Lake and of the connector to S3, if the contender needs them."""

    def place(self, name: str, scheme: str = "s3") -> str:
        """Return the path or URL of a table."""
        return f"{scheme}://{self.store}{name}/landed" if self.store else f"{self.directory}/{name}"

    @classmethod
    def of_command_line(cls) -> Task:
        return cls.of_json(sys.argv[1])

    @classmethod
    def of_json(cls, text: str) -> Task:
        return cattrs.structure(json.loads(text), cls)

    def to_json(self) -> str:
        return json.dumps(cattrs.unstructure(self))


TABLE, WARM = "table", "warm"

Stages = Mapping[str, float]
"""Seconds by stage. Seconds of several threads at the same time add up."""


@attrs.frozen
class Outcome:
    """Outcome of one run. CPU time is that of the program and its JVM together."""

    seconds: float
    """From before a consumer is created until all rows are in the table and their offsets are committed."""
    cpu_seconds: float
    """CPU time in these seconds, user and system."""
    stages: Stages = attrs.field(factory=dict)
    landings: int = 0
    """Number of our flushes, of one or more partitions, or of Spark's micro-batches."""

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))

    @classmethod
    def of_json(cls, text: str | bytes) -> Outcome:
        """Parse an outcome. Raises ValueError or TypeError for another text."""
        return cls(**json.loads(text))


class Stopwatch:
    """Measures this program and its JVM, from its creation on."""

    def __init__(self, jvm_pid: int) -> None:
        self._pids = (os.getpid(), jvm_pid)
        self._cpu_at_start, self._start = self._cpu(), time.perf_counter()

    def outcome(self, stages: Stages, landings: int) -> Outcome:
        """Return the outcome up to now."""
        seconds = time.perf_counter() - self._start
        return Outcome(seconds, self._cpu() - self._cpu_at_start, stages, landings)

    def _cpu(self) -> float:
        return sum(map(cpu_seconds, self._pids))


def jvm_pid(spark: SparkSession) -> int:
    jvm_view: Any = spark.sparkContext._jvm
    return int(jvm_view.java.lang.ProcessHandle.current().pid())


def options(task: Task) -> SparkOptions:
    """Return the options of Spark: the sink's defaults for both programs, and the jars of the task."""
    from sarameya_handlers import SparkOptions
    from tests.integration.object_stores.connector import s3_conf

    conf: dict[str, str] = {"spark.driver.memory": task.driver_memory}
    if task.kind == "delta":
        conf |= {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    if task.store:
        conf |= s3_conf()
    if task.jars:
        conf["spark.jars"] = ",".join(task.jars)
    return SparkOptions(master=task.master, app_name="bench-land", conf=conf)
