"""The jars of Delta Lake, of Iceberg, of H2 for a JDBC catalog, and of Avro."""

from __future__ import annotations

from pathlib import Path

from tests.integration.maven import maven_jars

DELTA_VERSION = "4.3.0"
AVRO_VERSION = "4.1.1"


def lake_jars() -> tuple[Path, ...]:
    """Return the jars of Delta Lake, Iceberg and H2, some 60 MB. Raises JarsError."""
    jars = maven_jars("lakes-delta", Path(__file__).with_name("pom.xml"), DELTA_VERSION)
    return tuple(sorted(jars.glob("*.jar")))


def avro_jars() -> tuple[Path, ...]:
    """Return the jars of Spark's Avro reader. Raises JarsError."""
    jars = maven_jars("spark-avro", Path(__file__).parent / "avro" / "pom.xml", AVRO_VERSION)
    return tuple(sorted(jars.glob("*.jar")))


def spark_jars() -> tuple[Path, ...]:
    """Return all jars that tests need beyond those of pyspark. Raises JarsError."""
    return (*lake_jars(), *avro_jars())
