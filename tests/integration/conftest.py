"""Fixtures of the integration tests: servers that all tests share. The report of a failed test has their logs.

The servers are a real Kafka of each major version, a schema registry, a Spark Connect server and a browser.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator

import pytest

from tests.integration.browser.chromium import Browser, chromium
from tests.integration.connect_server import ConnectServer
from tests.integration.lakes import lake_properties
from tests.integration.needed import need
from tests.integration.object_stores.fixtures import azurite, gateway
from tests.integration.real_kafka import KAFKA_3_VERSION, KAFKA_VERSION, RealKafka
from tests.integration.real_kafka.kerberos import running
from tests.integration.real_kafka.node import free_ports, java_program
from tests.integration.real_kafka.replicas import create_groups_topic, mend
from tests.integration.real_kafka.security import Security
from tests.integration.real_registry import RealRegistry
from tests.transcripts.stage import FEW, RACKS

__all__ = ["azurite", "gateway"]  # fixtures


@pytest.fixture(scope="session")
def real_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """Apache Kafka with one broker. Tests share it: each has its own topics and groups."""
    need(java_program(), "mvn")
    with RealKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


@pytest.fixture
def real_kafka_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """Apache Kafka with one broker for one test, which may give its topics common names."""
    need(java_program(), "mvn")
    with RealKafka(tmp_path_factory.mktemp("kafka-alone")) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def real_kafka_3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """Apache Kafka of the previous major version with one broker, shared like `real_kafka`."""
    need(java_program(), "mvn")
    with RealKafka(tmp_path_factory.mktemp("kafka-3"), version=KAFKA_3_VERSION) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def real_kafka_secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """Apache Kafka with one broker, TLS listeners and authentication. Tests share it."""
    need(java_program(), "mvn", "krb5kdc", "kadmin.local")
    directory = tmp_path_factory.mktemp("kafka-secured")
    with running(directory / "realm", *free_ports(1)) as realm:
        with RealKafka(directory, security=Security(directory / "files", realm)) as kafka:
            yield kafka


@pytest.fixture(scope="session")
def go() -> None:
    """Go, which compiles members with sarama."""
    need("go")


@pytest.fixture(scope="session")
def real_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    """A schema registry. Tests share it: each has its own subjects."""
    need(java_program(), "mvn")
    with RealRegistry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(
    params=["real_kafka", pytest.param("real_kafka_3", marks=pytest.mark.exhaustive)],
    ids=[f"Kafka {KAFKA_VERSION}", f"Kafka {KAFKA_3_VERSION}"],
)
def real_kafka_any(request: pytest.FixtureRequest) -> RealKafka:
    """Return either Kafka, for a test that runs on both."""
    kafka: RealKafka = request.getfixturevalue(request.param)
    return kafka


@pytest.fixture(scope="session")
def _three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    need(java_program(), "mvn")
    with RealKafka(tmp_path_factory.mktemp("kafka-of-three"), brokers=3, racks=RACKS) as kafka:
        create_groups_topic(kafka)
        yield kafka


@pytest.fixture
def real_kafka_of_three(_three_brokers: RealKafka) -> RealKafka:
    """Apache Kafka with three brokers, each in its own rack, for tests that stop or disturb brokers.

    Tests share it. Before each test all brokers run, replicas are in sync, and each partition has its preferred leader.
    """
    mend(_three_brokers)
    return _three_brokers


@pytest.fixture
def real_kafka_of_small_groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """Apache Kafka with three brokers, each in its own rack, and with a low `group.max.size`."""
    need(java_program(), "mvn")
    properties = {"group.max.size": str(FEW)}
    with RealKafka(tmp_path_factory.mktemp("kafka-few"), brokers=3, properties=properties, racks=RACKS) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def lake_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """A Spark Connect server with Delta Lake and Iceberg. Tests share it, each with its own tables; none stops it."""
    need(java_program(), "mvn")
    directory = tmp_path_factory.mktemp("spark-connect")
    with ConnectServer(directory, lake_properties(directory)) as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium. Each page has its own profile."""
    need("chromium")
    with chromium(str(shutil.which("chromium"))) as browser:
        yield browser


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for used in {id(value): value for value in getattr(item, "funcargs", {}).values()}.values():
            if isinstance(used, RealKafka):
                report.sections += [(f"log of broker {node.node_id}", node.last_lines()) for node in used.nodes]
            if isinstance(used, ConnectServer):
                report.sections += [("log of the Connect server", used.last_lines())]
    return report
