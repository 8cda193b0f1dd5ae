"""A place in which only one process of a machine may commit, with a Spark driver of its own."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from sarameya import HandlerError
from sarameya_handlers.spark.errors import of_directory

_leases: dict[Path, int] = {}
"""Of this process: for as long as it lives, since so long lives its JVM."""


def take_lease(file: Path, refusal: str) -> None:
    """Make this process the only one that holds it, on this machine; `refusal` is said where another does.

    Gone with the process, however it ends. Raises HandlerError, LandingError for what may pass.
    """
    if holds_lease(file):
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise of_directory(f"cannot write {file}", error, "choose a directory that this user may write to") from error
    try:
        # Of the process, not of the descriptor: a fork has none, and another open file of ours would end it.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise HandlerError(f"{refusal} ({file} is locked)") from error
    _leases[file.resolve()] = descriptor


def holds_lease(file: Path) -> bool:
    """Whether this process has taken it, and it is still there: one of a directory that was made anew is another."""
    descriptor = _leases.get(file.resolve())
    try:
        return descriptor is not None and os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
