"""The jars of Delta Lake, of Iceberg, and of H2 for a JDBC catalog."""

from __future__ import annotations

from pathlib import Path

from tests.integration.maven import maven_jars

DELTA_VERSION = "4.3.0"


def lake_jars() -> tuple[Path, ...]:
    """Those that pyspark has not; some 60 MB. Raises JarsError."""
    jars = maven_jars("lakes-delta", Path(__file__).with_name("pom.xml"), DELTA_VERSION)
    return tuple(sorted(jars.glob("*.jar")))
