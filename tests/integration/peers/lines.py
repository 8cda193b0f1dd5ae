"""Protocol between a peer program and its harness: options on the command line, lines of JSON on stdout.

A member (`*_member.py`) is started with one argument, `MemberOptions` as JSON, and runs until SIGTERM, upon which it
leaves the group in order and exits with 0. It prints a line when it starts and leaves, when it is given partitions or
gives them up, and for each message. Standard error is for people.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable

import attrs


@attrs.frozen
class MemberOptions:
    """Times are seconds. `strategy` is an assignor, by the name that the group protocol knows it by."""

    bootstrap: str
    topic: str
    group: str
    client_id: str
    strategy: str = "range"
    session_timeout: float = 2.0
    heartbeat_interval: float = 0.2
    start_at: float = 0.0
    """When to begin, in seconds since 1970: by then a program is loaded, which takes each language its own time."""

    @classmethod
    def begin(cls) -> MemberOptions:
        """The options of this program's command line, once it is to begin."""
        options = cls(**json.loads(sys.argv[1]))
        time.sleep(max(0.0, options.start_at - time.time()))
        say("starting")
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
    """A report of a member.

    `starting`, `leaving`   its consumer is about to be made, about to be closed
    `assigned`, `revoked`   the partitions that it is given or gives up, as its client tells it: the changes, or all
    `led`                   it has dealt the partitions, as the group's leader
    `message`               one message: its partition, offset and value
    """

    event: str
    at: float
    """When, in seconds since 1970: the one clock that all programs on a machine share, whatever they are written in."""
    partitions: tuple[int, ...] = ()
    offset: int = -1
    value: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """The (partition, offset) of a message."""
        return self.partitions[0], self.offset

    @classmethod
    def of_json(cls, text: bytes) -> Line:
        told = json.loads(text)
        return cls(**{**told, "partitions": tuple(told["partitions"])})


def say(event: str, partitions: Iterable[int] = (), **more: object) -> None:
    """Print a line."""
    print(json.dumps({"event": event, "at": time.time(), "partitions": sorted(partitions), **more}), flush=True)


def say_message(partition: int, offset: int, value: bytes) -> None:
    say("message", [partition], offset=offset, value=value.decode())
