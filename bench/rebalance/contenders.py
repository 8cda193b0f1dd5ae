"""Contenders, and the program of each. Builds sarama's program, in Go, from `sarama/`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from bench.common import go
from tests.integration.peers.lines import MemberOptions
from tests.integration.peers.running import COMMANDS, Command

SOURCE = Path(__file__).with_name("sarama")
BINARY = go.BINARIES / "sarama-member"


@attrs.frozen
class Contender:
    """A client, with one assignor."""

    kind: str
    """Key of its program in `commands()`."""
    strategy: str
    """Name of the assignor."""
    is_ours: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.strategy}"


CONTENDERS = (
    Contender("sarameya", "range", is_ours=True),
    Contender("sarameya", "cooperative-sticky", is_ours=True),
    Contender("sarama", "range"),
    Contender("sarama", "sticky"),
    Contender("aiokafka", "range"),
    Contender("aiokafka", "sticky"),
    Contender("confluent-kafka", "cooperative-sticky"),
)


def commands() -> Mapping[str, Command]:
    """Build sarama's program, and return the command of each kind of member. Raises GoError."""
    go.build(SOURCE, ".", BINARY)

    def sarama(options: MemberOptions) -> list[str]:
        return [str(BINARY), options.to_json()]

    return {**COMMANDS, "sarama": sarama}
