"""Each client's member program, and how a bench names those that compete. What is written in Go is built here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from bench.common import go
from bench.members.telling import MemberTask
from tests.integration.real_kafka.jars import kafka_jars
from tests.integration.real_kafka.node import java_program

GO_MODULE = Path(__file__).with_name("go")
BINARIES = go.BINARIES / "members"

OURS = "sarameya"
_IN_PYTHON = {OURS: "sarameya_member", "aiokafka": "aiokafka_member", "confluent-kafka": "confluent_member"}
_IN_GO = ("sarama", "franz-go")
JAVA = "java"
"""Kafka's own console consumer, which tells no lines."""
CLIENTS = (*_IN_PYTHON, *_IN_GO, JAVA)
_CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@attrs.frozen
class Contender:
    """A client, used in a certain way."""

    name: str
    client: str = attrs.field(validator=attrs.validators.in_(CLIENTS))
    way: str = ""
    """Which of the program's ways to read."""
    options: Mapping[str, Any] = attrs.field(factory=dict)
    """The client's own, beside its defaults."""
    commits: bool = False
    """Whether messages are marked and marks committed."""

    @property
    def is_ours(self) -> bool:
        return self.client == OURS

    def command(self, bootstrap: str, topic: str, group: str, partitions: int, **more: Any) -> list[str]:
        """The command of its member; `more` are the other fields of the MemberTask."""
        if self.client == JAVA:
            return _java(bootstrap, topic, group)
        task = MemberTask(
            bootstrap, topic, group, partitions, self.way, options=self.options, commits=self.commits, **more
        ).to_json()
        if self.client in _IN_GO:
            return [str(BINARIES / self.client), task]
        return [sys.executable, "-m", f"bench.members.programs.{_IN_PYTHON[self.client]}", task]


def _java(bootstrap: str, topic: str, group: str) -> list[str]:
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning"]
    # The heap is what Kafka's script gives it.
    return [java_program(), "-Xmx512m", "-cp", f"{kafka_jars()}/*", _CONSOLE_CONSUMER, *arguments]


def build() -> None:
    """Build what is written in Go. Raises GoError."""
    BINARIES.mkdir(parents=True, exist_ok=True)
    go.build(GO_MODULE, "./...", BINARIES)
