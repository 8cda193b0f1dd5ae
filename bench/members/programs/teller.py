"""What the members in Python share: they count, and tell."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from array import array
from importlib.metadata import version

from bench.common.processes import rss_bytes
from bench.members.stamps import lateness_and_sequence
from bench.members.telling import MemberTask


class Teller:
    """Tells the lines of one member, whose distribution is `distribution`. Make it once the program is loaded."""

    def __init__(self, distribution: str) -> None:
        self.task = MemberTask.of_json(sys.argv[1])
        self.counts = [0] * self.task.partitions
        """How many messages of each partition have been handled: for the program to count up."""
        self._version = version(distribution)
        self._sequences = array("q")
        self._lateness = array("q")
        signal.signal(signal.SIGTERM, self._end)
        self._say("loaded", rss_bytes=rss_bytes())
        if self.task.report_seconds:
            threading.Thread(target=self._report, daemon=True).start()

    def assigned(self, partitions: int) -> None:
        self._say("assigned", partitions=partitions)

    def stamp(self, value: bytes) -> None:
        """A message with a stamp is here."""
        lateness, sequence = lateness_and_sequence(value)
        self._lateness.append(lateness)
        self._sequences.append(sequence)

    def handle(self, partition: int, value: bytes) -> float:
        """A message is here: how long its handler is to sleep. For programs that are not in a hurry."""
        if self.task.is_stamped:
            self.stamp(value)
        self.counts[partition] += 1
        return self.task.pace_of(partition)

    def _report(self) -> None:
        while True:
            time.sleep(self.task.report_seconds)
            self._say("progress", **self._handled())

    def _end(self, *_: object) -> None:
        stamped = {"sequences": self._sequences.tolist(), "lateness": self._lateness.tolist()}
        self._say("done", **self._handled(), **stamped, version=self._version)
        os._exit(0)

    def _handled(self) -> dict[str, int]:
        slow = self.task.slow_partition
        slow_count = self.counts[slow] if slow >= 0 else 0
        return {"others": sum(self.counts) - slow_count, "slow": slow_count}

    @staticmethod
    def _say(event: str, **told: object) -> None:
        """Not by print, which a signal handler must not call while it is being called."""
        line = json.dumps({"event": event, "at": time.monotonic(), **told}).encode() + b"\n"
        while line:
            line = line[os.write(sys.stdout.fileno(), line) :]
