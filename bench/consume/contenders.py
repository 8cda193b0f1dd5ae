"""The contenders, their commands, and the build of those in Go."""

from __future__ import annotations

import sys
from pathlib import Path

import attrs

from bench.common import go
from bench.consume.programs.reading import Task

GO_MODULE = Path(__file__).with_name("go")


@attrs.frozen
class Contender:
    """A client, and one way to read with it.

    Attributes:
        name: Its name in the tables.
        program: A module of `programs`, or a command of the Go module.
        way: One of the program's ways to read.
        is_ours: True for Sarameya.
        in_go: True if the program is written in Go.
        is_python_peer: True for another Python client.
    """

    name: str
    program: str
    way: str = ""
    is_ours: bool = False
    in_go: bool = False
    is_python_peer: bool = False

    def command(self, task: Task) -> list[str]:
        """Return the command that runs the task."""
        if self.in_go:
            return [str(go.BINARIES / self.program), task.to_json()]
        return [sys.executable, "-m", f"bench.consume.programs.{self.program}", task.to_json()]


CONTENDERS = (
    Contender("sarameya-marked", "sarameya_reader", "messages", is_ours=True),
    Contender("sarameya-batches", "sarameya_reader", "batches", is_ours=True),
    Contender("sarameya-arrow", "sarameya_reader", "arrow", is_ours=True),
    Contender("aiokafka-iterator", "aiokafka_reader", "iterator", is_python_peer=True),
    Contender("aiokafka-getmany", "aiokafka_reader", "getmany", is_python_peer=True),
    Contender("confluent-poll", "confluent_reader", "poll", is_python_peer=True),
    Contender("confluent-tuned", "confluent_reader", "tuned", is_python_peer=True),
    Contender("kafka-python", "kafka_python_reader", is_python_peer=True),
    Contender("sarama", "sarama", in_go=True),
    Contender("franz-go", "franz-go", in_go=True),
    Contender("java", "java_reader"),
)
"""The first row of a client is the first example of its manual, the second one is tuned like the manual recommends.

`sarameya-marked` is `async for message in claim` with `mark_message`, `sarameya-batches` is `claim.batches()` with
`mark_batch`, and `sarameya-arrow` is that with `to_arrow()`.
"""

REFERENCE = "sarama"
"""The peer that takes part in every combination."""


def build() -> None:
    """Build the Go programs. Raises GoError."""
    go.BINARIES.mkdir(parents=True, exist_ok=True)
    go.build(GO_MODULE, "./...", go.BINARIES)
