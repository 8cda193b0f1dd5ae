"""What a process takes of the machine: CPU time, to the nanosecond, and resident memory. Linux only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import attrs

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SCHEDULED = 2
"""Which of a process's clocks counts what the scheduler gave to all its threads, those that have ended included."""


@attrs.frozen
class Usage:
    at: float
    """When, on the monotonic clock, in seconds."""
    cpu_seconds: float
    """Since it began, user and system."""
    rss_bytes: int


def usage(pid: int) -> Usage:
    """What a process has taken. Raises OSError for one that is gone."""
    return Usage(time.monotonic(), cpu_seconds(pid), rss_bytes(pid))


def cores(before: Usage, after: Usage) -> float:
    """How many processors a process kept busy in between: its CPU seconds a second."""
    return (after.cpu_seconds - before.cpu_seconds) / (after.at - before.at)


def cpu_seconds(pid: int) -> float:
    # As clock_getcpuclockid(3) makes the id; /proc tells hundredths of a second only.
    return time.clock_gettime(~pid << 3 | _SCHEDULED)


def rss_bytes(pid: int | str = "self") -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def peak_rss_bytes(pid: int | str = "self") -> int:
    """Of this process, or another. (What getrusage tells has in it the process that has started this one.)"""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [kilobytes] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024


def tree(pid: int) -> set[int]:
    """A process and all that come of it, as long as those between them live."""
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
    found, newest = {pid}, {pid}
    while newest:
        newest = {child for child, parent in parents.items() if parent in newest} - found
        found |= newest
    return found


def _parent(entry: Path) -> int:
    """0 for a process that is gone."""
    try:
        # Behind its name, which may have anything in it.
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def rss_bytes_of(pids: Iterable[int]) -> int:
    """Of several together; what they share counts for each. One that is gone has none."""
    return sum(map(_rss_bytes_or_none, pids))


def _rss_bytes_or_none(pid: int) -> int:
    try:
        return rss_bytes(pid)
    except OSError:
        return 0
