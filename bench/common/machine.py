"""What a table is worth nothing without: the machine that it was measured on, when, and what of ours."""

from __future__ import annotations

import os
import platform
import subprocess
import time

import attrs

from tests.integration.peers.running import ROOT


@attrs.frozen
class Machine:
    processors: int
    memory_bytes: int
    system: str
    python: str
    date: str
    """Local, to the minute."""
    commit: str
    """Of the repository at the start; "changed" where the runtime was not as committed, "" where git does not say."""

    @classmethod
    def here(cls) -> Machine:
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
        told = [self.date, f"{self.processors} processors", memory, self.system, f"Python {self.python}"]
        return ", ".join([*told, f"commit {self.commit}"] if self.commit else told)


def load() -> float:
    """The machine's load average over the last minute: what else ran there, and the bench itself."""
    return os.getloadavg()[0]


def _commit() -> str:
    commit = _git("rev-parse", "--short", "HEAD")
    return f"{commit}, changed" if commit and _git("status", "--porcelain", "--", "runtime") else commit


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
