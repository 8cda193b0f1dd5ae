"""What both landing programs share: what they are told and tell, what their Spark is like, the clock.

One argument, a `Task` as JSON, and one line of JSON on standard output, `Outcome`. Standard error is for people.
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
    bootstrap: str
    group: str
    """Fresh: what the names of consumer groups begin with."""
    warm: Source
    """Landed first, with the clock standing still."""
    full: Source
    directory: str
    """Fresh. What is landed of `full` is to be in its subdirectory TABLE."""
    master: str
    driver_memory: str
    kind: str = "parquet"
    """Or "delta"."""
    is_parsed: bool = False
    """Whether rows are what `bench.common.events.parse` makes of records, rather than the records."""
    jars: tuple[str, ...] = ()
    """Of the Kafka source and of Delta Lake, for who uses them."""

    @classmethod
    def of_command_line(cls) -> Task:
        return cls.of_json(sys.argv[1])

    @classmethod
    def of_json(cls, text: str) -> Task:
        return cattrs.structure(json.loads(text), cls)

    def to_json(self) -> str:
        return json.dumps(cattrs.unstructure(self))


TABLE = "table"

Stages = Mapping[str, float]
"""Seconds by what they were for; what several threads do at once counts for each."""


@attrs.frozen
class Outcome:
    """What one landing came to. Processor time is of the program and its JVM together."""

    seconds: float
    """From before a consumer is made to all rows being in the table and their offsets committed."""
    cpu_seconds: float
    """In that time, user and system."""
    stages: Stages = attrs.field(factory=dict)
    landings: int = 0
    """Of one partition's or of several's, each with one job of Spark's at most."""

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))

    @classmethod
    def of_json(cls, text: str | bytes) -> Outcome:
        """Raises ValueError or TypeError for what is none."""
        return cls(**json.loads(text))


class Stopwatch:
    """Runs from when it is made, for this program and its JVM."""

    def __init__(self, jvm_pid: int) -> None:
        self._pids = (os.getpid(), jvm_pid)
        self._cpu_began, self._began = self._cpu(), time.perf_counter()

    def outcome(self, stages: Stages, landings: int) -> Outcome:
        seconds = time.perf_counter() - self._began
        return Outcome(seconds, self._cpu() - self._cpu_began, stages, landings)

    def _cpu(self) -> float:
        return sum(map(cpu_seconds, self._pids))


def jvm_pid(spark: SparkSession) -> int:
    jvm_view: Any = spark.sparkContext._jvm
    return int(jvm_view.java.lang.ProcessHandle.current().pid())


def options(task: Task) -> SparkOptions:
    """The same for both, but for the jars: the sink's, with all of its defaults."""
    from sarameya_handlers import SparkOptions

    conf: dict[str, str] = {"spark.driver.memory": task.driver_memory}
    if task.kind == "delta":
        conf |= {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    if task.jars:
        conf["spark.jars"] = ",".join(task.jars)
    return SparkOptions(master=task.master, app_name="bench-land", conf=conf)
