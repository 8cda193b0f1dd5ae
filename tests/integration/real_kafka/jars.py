"""The jars of one Kafka version."""

from __future__ import annotations

from pathlib import Path

from tests.integration.maven import JarsError, maven_jars

__all__ = ["KAFKA_3_VERSION", "KAFKA_VERSION", "JarsError", "kafka_jars"]

KAFKA_VERSION = "4.1.0"
KAFKA_3_VERSION = "3.9.1"
"""A version of the last release line of Kafka 3, whose brokers have the old group coordinator."""


def kafka_jars(version: str = KAFKA_VERSION) -> Path:
    """Return the directory of the version's jars, about 50 MB. Raises JarsError."""
    return maven_jars("kafka", Path(__file__).with_name("pom.xml"), version)
