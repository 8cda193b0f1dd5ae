"""Protocol between a peer program and its harness: options on the command line, lines of JSON on stdout.

A member (`*_member.py`) is started with one argument, `MemberOptions` as JSON. It runs until SIGTERM; then it leaves
the group in order and exits with 0. It prints a line when it starts and leaves, when partitions are assigned or
revoked, and for each message. Standard error is for people.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable

import attrs


@attrs.frozen
class MemberOptions:
    """Options of a member. Times are in seconds; `strategy` is the name of an assignor in the group protocol."""

    bootstrap: str
    topic: str
    group: str
    client_id: str
    strategy: str = "range"
    session_timeout: float = 2.0
    heartbeat_interval: float = 0.2
    start_at: float = 0.0
    """The time to start at, in seconds since 1970, after every program has loaded (that time differs by language)."""
    limit: int = 0
    """The number of messages to take (0: all). Members with sarama and confluent-kafka only."""

    @classmethod
    def begin(cls) -> MemberOptions:
        """Parse the options from the command line, wait until `start_at`, and report the start."""
        options = cls(**json.loads(sys.argv[1]))
        time.sleep(max(0.0, options.start_at - time.time()))
        report("starting")
        return options

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))

    @property
    def session_timeout_ms(self) -> int:
        return round(self.session_timeout * 1000)

    @property
    def heartbeat_interval_ms(self) -> int:
        return round(self.heartbeat_interval * 1000)


@attrs.frozen
class Line:
    """A report of a member. `event` is one of these:

    `starting`, `leaving`   the consumer is about to be created, about to be closed
    `assigned`, `revoked`   the partitions that the client's callback names: the changed ones, or all
    `led`                   the member computes the assignment, as the group's leader
    `message`               one message: its partition, offset and value

    Members with a message handler report a `message` once it is handled. They have two more events:

    `begun`                 one message that is about to be handled
    `membership`            the membership has changed; the new state is the value
    """

    event: str
    at: float
    """The time in seconds since 1970: programs of all languages on a machine share this clock."""
    partitions: tuple[int, ...] = ()
    offset: int = -1
    value: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """The (partition, offset) of a message."""
        return self.partitions[0], self.offset

    @classmethod
    def of_json(cls, text: bytes) -> Line:
        fields = json.loads(text)
        return cls(**{**fields, "partitions": tuple(fields["partitions"])})


def report(event: str, partitions: Iterable[int] = (), **more: object) -> None:
    """Print a line. Threads may do so at the same time: with `print`, their lines would be mixed."""
    line = json.dumps({"event": event, "at": time.time(), "partitions": sorted(partitions), **more})
    sys.stdout.buffer.write(line.encode() + b"\n")
    sys.stdout.buffer.flush()


def report_message(partition: int, offset: int, value: bytes) -> None:
    report("message", [partition], offset=offset, value=value.decode())
