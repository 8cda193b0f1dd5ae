"""Who competes, and the command of each. What is written in Go is built here."""

from __future__ import annotations

import sys
from pathlib import Path

import attrs

from bench.common import go
from bench.consume.programs.reading import Task

GO_MODULE = Path(__file__).with_name("go")


@attrs.frozen
class Contender:
    name: str
    program: str
    """A module of `programs`, or a command of the Go module."""
    way: str = ""
    """Which of the program's ways to read."""
    is_ours: bool = False
    in_go: bool = False
    is_python_peer: bool = False

    def command(self, task: Task) -> list[str]:
        if self.in_go:
            return [str(go.BINARIES / self.program), task.to_json()]
        return [sys.executable, "-m", f"bench.consume.programs.{self.program}", task.to_json()]


CONTENDERS = (
    Contender("sarameya-messages", "sarameya_reader", "messages", is_ours=True),
    Contender("sarameya-arrow", "sarameya_reader", "arrow", is_ours=True),
    Contender("aiokafka-iterator", "aiokafka_reader", "iterator", is_python_peer=True),
    Contender("aiokafka-getmany", "aiokafka_reader", "getmany", is_python_peer=True),
    Contender("confluent-poll", "confluent_reader", "poll", is_python_peer=True),
    Contender("confluent-consume", "confluent_reader", "consume", is_python_peer=True),
    Contender("confluent-tuned", "confluent_reader", "tuned", is_python_peer=True),
    Contender("kafka-python", "kafka_python_reader", is_python_peer=True),
    Contender("sarama", "sarama", in_go=True),
    Contender("franz-go", "franz-go", in_go=True),
    Contender("java", "java_reader"),
)
"""`sarameya-messages` is `async for message in claim`, `sarameya-arrow` is `claim.batches()` with `to_arrow()`;
`confluent-tuned` is confluent-kafka's consume with an option that is not its default."""

YARDSTICK = "sarama"
"""The peer that is there at every combination."""


def build() -> None:
    """Build what is written in Go. Raises GoError."""
    go.BINARIES.mkdir(parents=True, exist_ok=True)
    go.build(GO_MODULE, "./...", go.BINARIES)
