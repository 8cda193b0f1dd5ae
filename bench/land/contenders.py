"""Contenders, the command of each, and the cases in which they land."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import attrs

from bench.land.jars import delta_jars, source_jars
from bench.land.programs.landing import Task
from tests.integration.object_stores.connector import connector_jars


@attrs.frozen
class Contender:
    """A program that lands a topic."""

    name: str
    program: str
    """Its module in `programs`."""
    is_ours: bool = False

    @property
    def version(self) -> str:
        return f"{version('sarameya')} with Spark {version('pyspark')}" if self.is_ours else version("pyspark")

    def command(self, task: Task) -> list[str]:
        """Return the command that lands a task. Raises JarsError."""
        jars: tuple[Path, ...] = () if self.is_ours else source_jars()
        if task.kind == DELTA:
            jars += delta_jars()
        if task.store:
            jars += connector_jars()
        with_jars = attrs.evolve(task, jars=tuple(map(str, jars)))
        return [sys.executable, "-m", f"bench.land.programs.{self.program}", with_jars.to_json()]


OURS = "sarameya"
SPARK = "spark-source"
CONTENDERS = (Contender(OURS, "sarameya_lander", is_ours=True), Contender(SPARK, "spark_lander"))

PARQUET = "parquet"
DELTA = "delta"


@attrs.frozen
class Case:
    """Kind of the table, whether records are parsed before they land, and whether the table is on S3."""

    kind: str
    is_parsed: bool = False
    is_on_s3: bool = False

    @property
    def name(self) -> str:
        return self.kind + "-parsed" * self.is_parsed + "-s3" * self.is_on_s3

    @property
    def title(self) -> str:
        place = " on S3" * self.is_on_s3
        return f"{self.kind.capitalize()}{place}, {'parsed by from_json' if self.is_parsed else 'as it is'}"


CASES = (
    *(Case(kind, is_parsed) for kind in (PARQUET, DELTA) for is_parsed in (False, True)),
    *(Case(kind, is_on_s3=True) for kind in (PARQUET, DELTA)),
)
