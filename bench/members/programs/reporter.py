"""Counts messages and prints reports, for all members in Python."""

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
from bench.members.protocol import MemberTask
from bench.members.stamps import lateness_and_sequence


class Reporter:
    """Prints the reports of one member. Create it once the program is loaded.

    Args:
        distribution: Name of the client's distribution, whose version is reported.
    """

    def __init__(self, distribution: str) -> None:
        self.task = MemberTask.of_json(sys.argv[1])
        self.counts = [0] * self.task.partitions
        """Number of messages handled, by partition. The program increments it."""
        self._version = version(distribution)
        self._sequences = array("q")
        self._lateness = array("q")
        # A long last report is written in parts: the thread of `progress` must not write between them. The lock is
        # reentrant, since the signal may interrupt a report of its own thread (a short one, which is written at once).
        self._writing = threading.RLock()
        signal.signal(signal.SIGTERM, self._end)
        self._write("loaded", rss_bytes=rss_bytes())
        if self.task.report_seconds:
            threading.Thread(target=self._report, daemon=True).start()

    def assigned(self, partitions: int) -> None:
        """Report the number of partitions that the member has now."""
        self._write("assigned", partitions=partitions)

    def stamp(self, value: bytes) -> None:
        """Note the number of a message with a stamp, and how late it is."""
        lateness, sequence = lateness_and_sequence(value)
        self._lateness.append(lateness)
        self._sequences.append(sequence)

    def handle(self, partition: int, value: bytes) -> float:
        """Count a message. Return the seconds for which its handler must sleep. Too slow for fast reading."""
        if self.task.is_stamped:
            self.stamp(value)
        self.counts[partition] += 1
        return self.task.pace_of(partition)

    def _report(self) -> None:
        while True:
            time.sleep(self.task.report_seconds)
            self._write("progress", **self._totals())

    def _end(self, *_: object) -> None:
        stamped = {"sequences": self._sequences.tolist(), "lateness": self._lateness.tolist()}
        self._write("done", **self._totals(), **stamped, version=self._version)
        os._exit(0)

    def _totals(self) -> dict[str, int]:
        slow = self.task.slow_partition
        slow_count = self.counts[slow] if slow >= 0 else 0
        return {"others": sum(self.counts) - slow_count, "slow": slow_count}

    def _write(self, event: str, **fields: object) -> None:
        """Write a report. Not with print: a signal handler must not call it while the main program does."""
        line = json.dumps({"event": event, "at": time.monotonic(), **fields}).encode() + b"\n"
        with self._writing:
            while line:
                line = line[os.write(sys.stdout.fileno(), line) :]
