"""Spark's connector to S3."""

from __future__ import annotations

import os
from pathlib import Path

from tests.integration.maven import maven_jars

HADOOP_VERSION = "3.4.2"
"""Version of the Hadoop in pyspark."""


def connector_jars() -> tuple[Path, ...]:
    """Return the connector's jars. Raises JarsError."""
    jars = maven_jars("s3-connector", Path(__file__).with_name("pom.xml"), HADOOP_VERSION)
    return tuple(sorted(jars.glob("*.jar")))


def s3_conf() -> dict[str, str]:
    """Return properties with which Spark reaches the store in the environment (`Gateway.environment`).

    Raises:
        JarsError: The connector cannot be downloaded.
    """
    return {
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.hadoop.fs.s3a.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "spark.hadoop.fs.s3a.endpoint.region": os.environ["AWS_REGION"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
