"""Directories for the temporary files of our JVMs, and the removal of those whose owners are dead.

A JVM that is killed leaves what it has in `java.io.tmpdir`: Spark's `spark-*` and `blockmgr-*`, tens of megabytes each.
So each JVM of ours has a directory of its own, with a file that its owner has locked. The kernel unlocks that when the
process and its JVM have ended, however they end: no process id that is used again, and no other PID namespace, can be
mistaken for an owner. Nothing that another user owns is touched, and no symbolic link is followed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger("sarameya.spark")

_NAME = re.compile("sarameya-[0-9a-f]{16}")
_OWNER = "owner"
_BEING_MADE = 600.0
"""Seconds for which a directory without an owner is taken for one that is being made."""


def new_place() -> Path:
    """The name of a directory that is not there yet. Raises FileNotFoundError where no temporary files can be."""
    return Path(tempfile.gettempdir(), f"sarameya-{secrets.token_hex(8)}")


def own(directory: Path) -> int:
    """Make this process the directory's owner: for as long as the descriptor returned is open, here or in a child."""
    unfinished = directory / f"{_OWNER}.new"
    descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):  # a file system without locks, where nobody takes it for abandoned either
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, b"pid %d\n" % os.getpid())  # for a person who looks
        # It is locked before it has the name by which others look at it.
        unfinished.rename(directory / _OWNER)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def remove_abandoned(check: Callable[[], None]) -> None:
    """Remove the directories of this user whose owners are dead. `check` is called before each, and may raise."""
    place = tempfile.gettempdir()
    for name in filter(_NAME.fullmatch, os.listdir(place)):
        check()
        directory = Path(place, name)
        try:
            lock = _abandoned(directory)
        except OSError:  # another user's; a file system without locks; or somebody else has just removed it
            continue
        if lock is not None:
            logger.info("%s is left of a process that was killed, and is removed", directory)
            shutil.rmtree(directory, ignore_errors=True)  # follows no symbolic link, at no moment
            os.close(lock)


def _abandoned(directory: Path) -> int | None:
    """A descriptor to be closed after the removal, by which nobody else takes it for abandoned; None if it has an
    owner. Raises OSError."""
    found = directory.lstat()
    if found.st_uid != os.geteuid() or directory.is_symlink() or not directory.is_dir():
        return None
    try:
        descriptor = os.open(directory / _OWNER, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        is_old = time.time() - found.st_mtime > _BEING_MADE
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if is_old else None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
