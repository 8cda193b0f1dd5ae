"""A lock between the processes of pytest-xdist, by which a test that measures time runs alone on the machine."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(directory: Path, *, alone: bool) -> Iterator[None]:
    """Hold the lock, shared with other tests or alone. All processes use the same `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "turnstile").open("wb") as turnstile, (directory / "turn").open("wb") as held:
        # A test that has to run alone waits with the turnstile locked, which blocks new shared tests. Otherwise
        # shared tests could hold the lock forever, one after the other.
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        fcntl.flock(held, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turnstile, fcntl.LOCK_UN)
        yield
