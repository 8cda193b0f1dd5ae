"""The jars of Delta Lake, of Iceberg and its catalogs, of PostgreSQL's driver, and of Avro."""

from __future__ import annotations

from pathlib import Path

from tests.integration.maven import maven_jars

DELTA_VERSION = "4.3.0"
AVRO_VERSION = "4.1.1"
ICEBERG_VERSION = "1.12.0"
REST_CATALOG_VERSION = "1.11.0"
"""Newest version of Iceberg whose REST server Maven has."""


def lake_jars() -> tuple[Path, ...]:
    """Return the jars of Delta Lake, Iceberg and PostgreSQL's driver, some 60 MB. Raises JarsError."""
    jars = maven_jars("lakes-delta", Path(__file__).with_name("pom.xml"), DELTA_VERSION)
    return tuple(sorted(jars.glob("*.jar")))


def avro_jars() -> tuple[Path, ...]:
    """Return the jars of Spark's Avro reader. Raises JarsError."""
    jars = maven_jars("spark-avro", Path(__file__).parent / "avro" / "pom.xml", AVRO_VERSION)
    return tuple(sorted(jars.glob("*.jar")))


def iceberg_aws_jars() -> tuple[Path, ...]:
    """Return the jars that Iceberg needs for tables on S3, 69 MB. Raises JarsError."""
    jars = maven_jars("iceberg-aws", Path(__file__).parent / "iceberg_aws" / "pom.xml", ICEBERG_VERSION)
    return tuple(sorted(jars.glob("*.jar")))


def rest_catalog_jars() -> tuple[Path, ...]:
    """Return the jars of a server of Iceberg's REST catalog, 37 MB. Raises JarsError."""
    jars = maven_jars("iceberg-rest", Path(__file__).parent / "iceberg_rest" / "pom.xml", REST_CATALOG_VERSION)
    return tuple(sorted(jars.glob("*.jar")))


def spark_jars() -> tuple[Path, ...]:
    """Return all jars that tests need beyond those of pyspark. Raises JarsError."""
    return (*lake_jars(), *avro_jars())
