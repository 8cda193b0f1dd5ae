"""The jars of Spark's Kafka source."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from tests.integration.maven import maven_jars


def source_jars() -> tuple[Path, ...]:
    """Those that pyspark, of the version that is installed, has not; 10 MB. Raises JarsError."""
    jars = maven_jars("spark-kafka-source", Path(__file__).with_name("pom.xml"), version("pyspark"))
    return tuple(sorted(jars.glob("*.jar")))
