"""The member program of each client, and the contenders of a bench. Builds the programs in Go."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from bench.common import go
from bench.members.protocol import MemberTask
from tests.integration.maven import maven_jars
from tests.integration.real_kafka.jars import kafka_jars
from tests.integration.real_kafka.node import java_program

GO_MODULE = Path(__file__).with_name("go")
BINARIES = go.BINARIES / "members"

OURS = "sarameya"
_IN_PYTHON = {OURS: "sarameya_member", "aiokafka": "aiokafka_member", "confluent-kafka": "confluent_member"}
_IN_GO = ("sarama", "franz-go")
JAVA = "java"
"""Kafka's own console consumer. It prints no reports."""
PARALLEL_CONSUMER = "parallel-consumer"
"""Confluent's Parallel Consumer, in Java."""
PARALLEL_CONSUMER_VERSION = "0.5.3.3"
CLIENTS = (*_IN_PYTHON, *_IN_GO, JAVA, PARALLEL_CONSUMER)
_PARALLEL_CONSUMER_MEMBER = Path(__file__).parent / "java" / "ParallelConsumerMember.java"
_CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@attrs.frozen
class Contender:
    """A client, with one way to read and its options.

    Attributes:
        name: Name in the tables.
        client: A client, one of CLIENTS.
        way: One of the program's ways to read.
        options: Options of the client that differ from its defaults.
        commits: True if messages are marked, and marks are committed.
    """

    name: str
    client: str = attrs.field(validator=attrs.validators.in_(CLIENTS))
    way: str = ""
    options: Mapping[str, Any] = attrs.field(factory=dict)
    commits: bool = False

    @property
    def is_ours(self) -> bool:
        return self.client == OURS

    def command(self, bootstrap: str, topic: str, group: str, partitions: int, **more: Any) -> list[str]:
        """Return the command of its member. `more` has further fields of the MemberTask.

        Raises:
            JarsError: The jars of a program in Java cannot be downloaded.
        """
        if self.client == JAVA:
            return _java(bootstrap, topic, group)
        task = MemberTask(
            bootstrap, topic, group, partitions, self.way, options=self.options, commits=self.commits, **more
        ).to_json()
        if self.client in _IN_GO:
            return [str(BINARIES / self.client), task]
        if self.client == PARALLEL_CONSUMER:
            return _parallel_consumer(task)
        return [sys.executable, "-m", f"bench.members.programs.{_IN_PYTHON[self.client]}", task]


def _java(bootstrap: str, topic: str, group: str) -> list[str]:
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning"]
    return [*_jvm(kafka_jars()), _CONSOLE_CONSUMER, *arguments]


def _parallel_consumer(task: str) -> list[str]:
    version = PARALLEL_CONSUMER_VERSION
    jars = maven_jars(PARALLEL_CONSUMER, _PARALLEL_CONSUMER_MEMBER.with_name("pom.xml"), version)
    options = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", f"-Dmember.version={version}"]
    return [*_jvm(jars), *options, str(_PARALLEL_CONSUMER_MEMBER), task]


def _jvm(jars: Path) -> list[str]:
    # Kafka's script sets the same heap size.
    return [java_program(), "-Xmx512m", "-cp", f"{jars}/*"]


def build() -> None:
    """Build the programs in Go. Raises GoError."""
    BINARIES.mkdir(parents=True, exist_ok=True)
    go.build(GO_MODULE, "./...", BINARIES)
