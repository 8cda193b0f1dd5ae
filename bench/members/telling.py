"""What every member is told and tells, in whatever language it is written (Go's half: `go/telling`).

One argument, a `MemberTask` as JSON; lines of JSON on standard output, each a `Line`. Standard error is for people. A
member begins at its group's commits, else at the oldest offset, and runs until SIGTERM, upon which it tells what it
has seen and is gone at once, without leaving its group. It counts the messages that it handles; the clock is the
monotonic one, which all programs of a machine share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

NEVER = -1.0
"""The pace of a handler that takes nothing at all."""


@attrs.frozen
class MemberTask:
    """Durations are seconds."""

    bootstrap: str
    topic: str
    group: str
    partitions: int
    """How many the topic has."""
    way: str = ""
    """Which of the client's ways to read, as `clients` has it."""
    options: Mapping[str, Any] = attrs.field(factory=dict)
    """The client's own, by its own names, beside its defaults. Those in Go have none."""
    commits: bool = False
    """Whether each message is marked and marks are committed, as often as is the client's default."""
    pace: float = 0.0
    """What the handler takes for each message: it sleeps so long. Or NEVER."""
    slow_partition: int = -1
    slow_pace: float = 0.0
    """The pace of that partition, if there is one."""
    is_stamped: bool = False
    """Whether values begin with a `bench.members.stamps` stamp, and how late each comes is to be told."""
    report_seconds: float = 0.0
    """How often to tell what has been handled; 0: only at the end."""

    @classmethod
    def of_json(cls, text: str) -> MemberTask:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))

    def pace_of(self, partition: int) -> float:
        return self.slow_pace if partition == self.slow_partition else self.pace


@attrs.frozen
class Line:
    """One thing that a member tells.

    `loaded`    the program is loaded; its client is made next
    `assigned`  it has been assigned partitions: how many it has now
    `progress`  what it has handled so far
    `done`      the same at its end, and how late each message came, if asked
    """

    event: str
    at: float
    """When, in seconds of the monotonic clock."""
    rss_bytes: int = 0
    """Its resident memory then (`loaded`)."""
    partitions: int = 0
    others: int = 0
    """Messages of all partitions but the slow one."""
    slow: int = 0
    """Messages of the slow one."""
    sequences: tuple[int, ...] = ()
    """The number of each message with a stamp, as they came,"""
    lateness: tuple[int, ...] = ()
    """and how late it came, in nanoseconds."""
    version: str = ""
    """The client's (`done`)."""

    @classmethod
    def of_json(cls, text: bytes | str) -> Line:
        """Raises ValueError or TypeError for what is none."""
        told = json.loads(text)
        lists = {name: tuple(told[name]) for name in ("sequences", "lateness") if name in told}
        return cls(**{**told, **lists})
