"""Who lands, and the command of each."""

from __future__ import annotations

import sys
from importlib.metadata import version

import attrs

from bench.land.jars import source_jars
from bench.land.programs.landing import Task


@attrs.frozen
class Contender:
    name: str
    program: str
    """A module of `programs`."""
    is_ours: bool = False

    @property
    def version(self) -> str:
        return f"{version('sarameya')} with Spark {version('pyspark')}" if self.is_ours else version("pyspark")

    def command(self, task: Task) -> list[str]:
        """Raises JarsError."""
        jars = () if self.is_ours else tuple(map(str, source_jars()))
        return [sys.executable, "-m", f"bench.land.programs.{self.program}", attrs.evolve(task, jars=jars).to_json()]


OURS = "sarameya"
SPARK = "spark-source"
CONTENDERS = (Contender(OURS, "sarameya_lander", is_ours=True), Contender(SPARK, "spark_lander"))
