"""Turns among the processes that pytest-xdist deals tests to: who measures time is alone on the machine meanwhile."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(directory: Path, *, alone: bool) -> Iterator[None]:
    """Hold the machine together with others, or alone. `directory` is one that all processes share."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "turnstile").open("wb") as turnstile, (directory / "turn").open("wb") as held:
        # Who is to be alone waits in the turnstile: else those who share could pass the turn among them for ever.
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        fcntl.flock(held, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turnstile, fcntl.LOCK_UN)
        yield
