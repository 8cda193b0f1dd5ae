"""The machine that a table was measured on, the date, and the commit of the repository."""

from __future__ import annotations

import os
import platform
import subprocess
import time

import attrs

from tests.integration.peers.running import ROOT


@attrs.frozen
class Machine:
    """A machine, and the date and the commit of a run on it."""

    processors: int
    memory_bytes: int
    system: str
    python: str
    date: str
    """Local time, to the minute."""
    commit: str
    """Commit of the repository, with ", changed" if the runtime was not as committed; empty if git fails."""

    @classmethod
    def here(cls) -> Machine:
        """Return this machine, now."""
        return cls(
            processors=os.cpu_count() or 0,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            system=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
            date=time.strftime("%Y-%m-%d %H:%M"),
            commit=_commit(),
        )

    def __str__(self) -> str:
        memory = f"{self.memory_bytes / 2**30:.0f} GiB"
        parts = [self.date, f"{self.processors} processors", memory, self.system, f"Python {self.python}"]
        return ", ".join([*parts, f"commit {self.commit}"] if self.commit else parts)


def load() -> float:
    """Return the load average of the last minute: of the bench, and of everything else on the machine."""
    return os.getloadavg()[0]


def _commit() -> str:
    commit = _git("rev-parse", "--short", "HEAD")
    return f"{commit}, changed" if commit and _git("status", "--porcelain", "--", "runtime", "handlers") else commit


def _git(*arguments: str) -> str:
    """Return the output of git; empty if git fails or is missing."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
