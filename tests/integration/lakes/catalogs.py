"""Iceberg catalogs that several Spark drivers may use at once. Each yields the properties of Spark's catalog.

with jdbc_catalog(directory) as catalog, classic(directory, iceberg=catalog) as spark: ...
with rest_catalog(directory, gateway) as catalog: ...   # its tables are on S3
"""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.integration.lakes.jars import rest_catalog_jars
from tests.integration.object_stores.gateway import REGION, Gateway
from tests.integration.postgres import postgres
from tests.integration.real_kafka.node import HOST, free_ports

_START_SECONDS = 60.0
_POLL_SECONDS = 0.1
_HADOOP = ("hadoop-client-*.jar", "log4j-*.jar", "commons-logging-*.jar")
"""Jars of pyspark that the server also needs."""


class CatalogError(Exception):
    """The server of a catalog did not start. The text has its output."""


@contextmanager
def jdbc_catalog(directory: Path) -> Iterator[Mapping[str, str]]:
    """Run a catalog in a PostgreSQL database, with tables in `directory`."""
    with postgres() as address:
        yield _in_database(address) | {"type": "jdbc", "warehouse": str(directory / "iceberg")}


@contextmanager
def rest_catalog(directory: Path, gateway: Gateway) -> Iterator[Mapping[str, str]]:
    """Run a REST catalog with tables on S3. It keeps their names in a PostgreSQL database.

    Args:
        directory: The directory of the server's log.
        gateway: The gateway with the tables' bucket. Spark reads its credentials from the environment.
    """
    s3 = {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": gateway.endpoint,
        "s3.path-style-access": "true",
        "client.region": REGION,
        # An unavailable store is reported after seconds, not after minutes.
        "s3.retry.num-retries": "1",
        "s3.retry.min-wait-ms": "100",
        "s3.retry.max-wait-ms": "100",
    }
    (port,) = free_ports(1)
    with postgres() as address:
        backend = _in_database(address) | s3 | {"catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog"}
        backend |= {"warehouse": f"{gateway.make_bucket()}/warehouse", "rest.port": str(port)}
        with _server(directory / "rest-catalog.log", backend, gateway, f"http://{HOST}:{port}") as url:
            yield s3 | {"type": "rest", "uri": url}


def _in_database(address: str) -> dict[str, str]:
    user, _, database = address.partition("@")
    return {"uri": f"jdbc:postgresql://{database}", "jdbc.user": user}


@contextmanager
def _server(log: Path, properties: Mapping[str, str], gateway: Gateway, url: str) -> Iterator[str]:
    # The server reads its properties from the environment.
    names = {name: name.replace("-", "__").replace(".", "_").upper() for name in properties}
    variables = {f"CATALOG_{names[name]}": value for name, value in properties.items()}
    with log.open("wb") as opened:
        process = subprocess.Popen(
            ["java", "-cp", _class_path(), "org.apache.iceberg.rest.RESTCatalogServer"],
            env={**os.environ, **gateway.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=opened,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await(process, f"{url}/v1/config", log)
        yield url
    finally:
        process.kill()
        process.wait()


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5.0).close()
        except OSError:
            time.sleep(_POLL_SECONDS)
        else:
            return
    raise CatalogError(f"the REST catalog has not started:\n{log.read_text(errors='replace')[-2000:]}")


def _class_path() -> str:
    import pyspark

    of_spark = Path(pyspark.__file__).parent / "jars"
    hadoop = [jar for pattern in _HADOOP for jar in sorted(of_spark.glob(pattern))]
    return ":".join(map(str, (*rest_catalog_jars(), *hadoop)))
