"""The jars of Spark's Kafka source, and of Delta Lake."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from tests.integration.lakes import lake_jars
from tests.integration.maven import maven_jars


def source_jars() -> tuple[Path, ...]:
    """Return the jars of the Kafka source that the installed pyspark does not have; 10 MB. Raises JarsError."""
    jars = maven_jars("spark-kafka-source", Path(__file__).with_name("pom.xml"), version("pyspark"))
    return tuple(sorted(jars.glob("*.jar")))


def delta_jars() -> tuple[Path, ...]:
    """Return the jars of Delta Lake that the tests use. Raises JarsError."""
    return tuple(jar for jar in lake_jars() if jar.name.startswith(("delta-", "unitycatalog-")))
