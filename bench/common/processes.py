"""CPU time of processes, to the nanosecond, and their resident memory. Linux only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import attrs

_PAGE = os.sysconf("SC_PAGE_SIZE")
_CPUCLOCK_SCHED = 2
"""Kind of clock that counts the CPU time of all threads of a process, ended ones included."""


@attrs.frozen
class Usage:
    """CPU time and memory of a process at one moment.

    Attributes:
        at: The moment, in seconds of the monotonic clock.
        cpu_seconds: CPU time since the process started, user and system.
        rss_bytes: Resident memory at that moment.
    """

    at: float
    cpu_seconds: float
    rss_bytes: int


def usage(pid: int) -> Usage:
    """Return the usage of a process. Raises OSError if it has ended."""
    return Usage(time.monotonic(), cpu_seconds(pid), rss_bytes(pid))


def cores(before: Usage, after: Usage) -> float:
    """Return how many processors a process kept busy between two moments: its CPU seconds per second."""
    return (after.cpu_seconds - before.cpu_seconds) / (after.at - before.at)


def cpu_seconds(pid: int) -> float:
    # This id is what clock_getcpuclockid(3) returns. /proc has CPU time in hundredths of a second only.
    return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)


def rss_bytes(pid: int | str = "self") -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def peak_rss_bytes(pid: int | str = "self") -> int:
    """Return the peak of resident memory. Not from getrusage, which includes the process that started this one."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [kilobytes] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024


def tree(pid: int) -> set[int]:
    """Return a process and its descendants, without those below a process that has ended."""
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
    found, newest = {pid}, {pid}
    while newest:
        newest = {child for child, parent in parents.items() if parent in newest} - found
        found |= newest
    return found


def _parent(entry: Path) -> int:
    """Return the id of the parent; 0 if the process has ended."""
    try:
        # Split after the name in parentheses, which may contain any character.
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def rss_bytes_of(pids: Iterable[int]) -> int:
    """Return the sum of several processes. Shared memory counts for each of them; an ended process has none."""
    return sum(map(_rss_bytes_or_zero, pids))


def _rss_bytes_or_zero(pid: int) -> int:
    try:
        return rss_bytes(pid)
    except OSError:
        return 0
