"""Input and output of every contender's program. Package `go/reading` is the counterpart for programs in Go.

Input: one argument, a `Task` as JSON. Output: one line of JSON, an `Outcome`; standard error is for people. A contender
is the only member of a fresh group and starts at the oldest offset. Every other option is its client's default, so it
also commits as the client does by default.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib.metadata import version

import attrs

from bench.common.processes import peak_rss_bytes


@attrs.frozen
class Task:
    """A topic to read.

    Attributes:
        bootstrap: Address of the broker.
        topic: Name of the topic.
        group: Id of the group.
        way: One of the client's ways to read (see `contenders`).
        messages: Number of messages in the topic.
        ends: Log end offset of each partition.
    """

    bootstrap: str
    topic: str
    group: str
    way: str
    messages: int
    ends: tuple[int, ...]

    @classmethod
    def of_command_line(cls) -> Task:
        return cls.of_json(sys.argv[1])

    @classmethod
    def of_json(cls, text: str) -> Task:
        fields = json.loads(text)
        return cls(**{**fields, "ends": tuple(fields["ends"])})

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))


@attrs.frozen
class Outcome:
    """Outcome of one run. Times are seconds.

    Attributes:
        messages: Number of messages read.
        bytes: Bytes of their keys and values.
        seconds: From the first message (or its batch) to the last.
        seconds_from_start: From the creation of the consumer, after imports, to the last message.
        reading_cpu_seconds: Processor time, user and system, within `seconds`.
        cpu_seconds: Processor time of the whole program, imports included.
        peak_rss_bytes: Peak of its resident memory.
        version: Version of the client.
        bytes_within: Error of `bytes`, for a program that rounds it.
    """

    messages: int
    bytes: int
    seconds: float
    seconds_from_start: float
    reading_cpu_seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    version: str
    bytes_within: int = 0

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Outcome:
        """Parse an outcome. Raises ValueError or TypeError for other text."""
        return cls(**json.loads(text))


class Stopwatch:
    """Times a program's reading; starts when it is created."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._first = self._last = (self._start, time.process_time())

    def first(self) -> None:
        """Note the time of the first message."""
        self._first = (time.perf_counter(), time.process_time())

    def last(self) -> None:
        """Note the time of the last message."""
        self._last = (time.perf_counter(), time.process_time())

    def report(self, messages: int, size: int, distribution: str, more: str = "") -> None:
        """Print the outcome. `distribution` is the client's package; `more` is added to its version."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        outcome = Outcome(
            messages=messages,
            bytes=size,
            seconds=self._last[0] - self._first[0],
            seconds_from_start=self._last[0] - self._start,
            reading_cpu_seconds=self._last[1] - self._first[1],
            cpu_seconds=used.ru_utime + used.ru_stime,
            peak_rss_bytes=peak_rss_bytes(),
            version=version(distribution) + more,
        )
        print(outcome.to_json(), flush=True)
