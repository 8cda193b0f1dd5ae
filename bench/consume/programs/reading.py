"""What every contender is told and tells, in whatever language it is written (Go's half: `go/reading`).

One argument, a `Task` as JSON, and one line of JSON on standard output, `Outcome`. Standard error is for people.
A contender is the one member of a fresh group and begins at the oldest offset; it commits nothing, and every other
option is its client's default, so that reading is what is measured.
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
    bootstrap: str
    topic: str
    group: str
    way: str
    """Which of the client's ways to read, as `contenders` has it."""
    messages: int
    """How many to read: all that the topic has."""
    ends: tuple[int, ...]
    """Where each partition ends: its log end offset."""

    @classmethod
    def of_command_line(cls) -> Task:
        return cls.of_json(sys.argv[1])

    @classmethod
    def of_json(cls, text: str) -> Task:
        told = json.loads(text)
        return cls(**{**told, "ends": tuple(told["ends"])})

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))


@attrs.frozen
class Outcome:
    """What one run of a contender came to. Times are seconds."""

    messages: int
    """How many it has read."""
    bytes: int
    """How many bytes the values of these had, each looked at."""
    seconds: float
    """From its first message (or the batch that this is in) to its last: the figure."""
    seconds_from_start: float
    """The same from where its consumer is made, once the program is loaded: joining and looking up offsets included."""
    cpu_seconds: float
    """Of processors, user and system, of the whole program, loading it included."""
    peak_rss_bytes: int
    version: str
    """The client's."""
    bytes_within: int = 0
    """How far off `bytes` may be, where a program tells it only so exactly."""

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Outcome:
        """Raises ValueError or TypeError for what is none."""
        return cls(**json.loads(text))


class Stopwatch:
    """Times a program's reading, from where this is made on."""

    def __init__(self) -> None:
        self._start = self._first = time.perf_counter()
        self._last = self._first

    def first(self) -> None:
        self._first = time.perf_counter()

    def last(self) -> None:
        self._last = time.perf_counter()

    def tell(self, messages: int, size: int, distribution: str, more: str = "") -> None:
        """Print the outcome, by the client that the distribution is."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        outcome = Outcome(
            messages=messages,
            bytes=size,
            seconds=self._last - self._first,
            seconds_from_start=self._last - self._start,
            cpu_seconds=used.ru_utime + used.ru_stime,
            peak_rss_bytes=peak_rss_bytes(),
            version=version(distribution) + more,
        )
        print(outcome.to_json(), flush=True)
