"""Who competes, and the program of each: sarama's is built here, by Go, from `sarama/`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import attrs

from tests.integration.peers.lines import MemberOptions
from tests.integration.peers.running import COMMANDS, ROOT, Command

SOURCE = Path(__file__).with_name("sarama")
BINARY = ROOT / "build" / "bench" / "sarama-member"

_BUILD_SECONDS = 600


class GoError(Exception):
    """sarama's member could not be built; the text says why."""


@attrs.frozen
class Contender:
    kind: str
    """Which program, of `commands()`."""
    strategy: str
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
    """Each kind of member: the command that runs it. Builds what is to be built. Raises GoError."""
    _build()

    def sarama(options: MemberOptions) -> list[str]:
        return [str(BINARY), options.to_json()]

    return {**COMMANDS, "sarama": sarama}


def _build() -> None:
    go = shutil.which("go")
    if go is None:
        raise GoError("Go is missing: it builds sarama's member (which go of go.mod, or a later one, must be on PATH)")
    done = subprocess.run(
        [go, "build", "-o", str(BINARY), "."],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise GoError(f"Go could not build {SOURCE}:\n{done.stdout}{done.stderr}")
