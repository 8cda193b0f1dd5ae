"""Input and output of every member program. Package `go/protocol` is the counterpart for programs in Go.

Input: one argument, a `MemberTask` as JSON. Output: lines of JSON, each a `Line`; standard error is for people. A
member starts at its group's committed offsets, or at the oldest ones if there are none. It counts the messages that it
handles. On SIGTERM it reports what it has handled, and exits at once, without leaving its group. All times are of the
monotonic clock, which the programs of a machine share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

NEVER = -1.0
"""Pace of a handler that takes no message."""


@attrs.frozen
class MemberTask:
    """Task of a member. Durations are seconds."""

    bootstrap: str
    topic: str
    group: str
    partitions: int
    """Number of the topic's partitions."""
    way: str = ""
    """Way to read, one of those of the program."""
    options: Mapping[str, Any] = attrs.field(factory=dict)
    """Options of the client that differ from its defaults, by its own names. Programs in Go accept none."""
    commits: bool = False
    """True if messages are marked, and marks are committed as often as the client does by default."""
    pace: float = 0.0
    """Time for which the handler sleeps for each message, or NEVER."""
    slow_partition: int = -1
    """A partition with its own pace; -1 for none."""
    slow_pace: float = 0.0
    """Pace of the slow partition, if there is one."""
    is_stamped: bool = False
    """True if values start with a stamp of `bench.members.stamps`: the member reports how late each message is."""
    report_seconds: float = 0.0
    """Time between two `progress` reports; 0 for none."""
    ordering: str = ""
    """Messages that are handled one after the other, for ways that handle several at once: those of a `partition`, of a
    `key`, or `none`."""
    concurrency: int = 0
    """Maximum number of messages that are handled at the same time, for such ways."""

    @classmethod
    def of_json(cls, text: str) -> MemberTask:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))

    def pace_of(self, partition: int) -> float:
        return self.slow_pace if partition == self.slow_partition else self.pace


@attrs.frozen
class Line:
    """Report of a member.

    `loaded`    the program is loaded, its client is not yet created
    `assigned`  partitions were assigned: how many the member has now
    `progress`  the messages handled so far
    `done`      the messages handled until the end, and how late each one was, if values have stamps
    """

    event: str
    at: float
    """Time of the report, in seconds of the monotonic clock."""
    rss_bytes: int = 0
    """Resident memory at that time (`loaded`)."""
    partitions: int = 0
    others: int = 0
    """Messages handled of all partitions except the slow one."""
    slow: int = 0
    """Messages handled of the slow partition."""
    sequences: tuple[int, ...] = ()
    """Numbers of the messages with stamps, in the order of their arrival."""
    lateness: tuple[int, ...] = ()
    """Nanoseconds from sending to handling of each of them."""
    version: str = ""
    """Version of the client (`done`)."""

    @classmethod
    def of_json(cls, text: bytes | str) -> Line:
        """Parse a report. Raises ValueError or TypeError for another text."""
        fields = json.loads(text)
        lists = {name: tuple(fields[name]) for name in ("sequences", "lateness") if name in fields}
        return cls(**{**fields, **lists})
