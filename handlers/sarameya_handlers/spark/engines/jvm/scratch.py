"""Directories for temporary files, most of them of our JVMs, and the removal of those whose owners are dead.

A JVM that is killed leaves what it has in `java.io.tmpdir`: Spark's `spark-*` and `blockmgr-*`, tens of megabytes each.
So each JVM of ours has a directory of its own, which its owner has locked. The kernel unlocks it when the process and
its JVM have ended, however they end: no process id that is used again, and no other PID namespace, can be mistaken for
an owner. The directory itself is locked, not a file in it, which a cleaner of old temporary files would remove under a
live JVM; systemd-tmpfiles leaves locked directories alone. Nothing that another user owns is touched, and no symbolic
link is followed.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger("sarameya.spark")

_NAME = re.compile("sarameya-(jvm|work)-[0-9a-f]{16}")
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
"""Errors of a file system without locks."""
_CHECKED_WITHIN = 10.0
"""Seconds within which another process has checked whether a directory is abandoned: it holds the lock meanwhile."""
_BEING_MADE = 600.0
"""Seconds for which an empty directory without an owner is taken for one that is being made."""


def new_place(kind: str = "jvm") -> Path:
    """Return the name of a directory that does not exist yet.

    Raises:
        FileNotFoundError: There is no directory for temporary files.
    """
    return Path(tempfile.gettempdir(), f"sarameya-{kind}-{secrets.token_hex(8)}")


def own(directory: Path) -> int:
    """Make this process the owner of a directory, while the descriptor returned is open, here or in a child.

    Raises:
        OSError: The directory cannot be opened, or nothing can be written there.
    """
    descriptor = _opened(directory)
    try:
        _lock(descriptor)
        # After the lock: a directory that is not empty and not locked is abandoned.
        (directory / "pid").write_text(f"{os.getpid()}\n")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int) -> None:
    """Lock a directory, once another process has checked whether it is abandoned.

    Raises:
        OSError: It has another owner.
    """
    deadline = time.monotonic() + _CHECKED_WITHIN
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        except OSError as error:
            if error.errno in _NO_LOCKS:  # where nobody takes it for abandoned either
                return
            raise


@contextmanager
def owned_directory() -> Iterator[Path]:
    """Make a directory for a block. If this process is killed, the next start of a JVM removes it.

    Raises:
        OSError: It cannot be made.
    """
    place = new_place("work")
    place.mkdir(mode=0o700)
    lock = own(place)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def remove_abandoned(check: Callable[[], None]) -> None:
    """Remove the directories of this user whose owners are dead.

    Args:
        check: Called before each; what it raises propagates.
    """
    place = tempfile.gettempdir()
    for name in filter(_NAME.fullmatch, os.listdir(place)):
        check()
        directory = Path(place, name)
        try:
            lock = _abandoned(directory)
        except OSError:  # another user's, a file system without locks, or another process has just removed it
            continue
        if lock is not None:
            logger.info("%s is left of a process that was killed, and is removed", directory)
            shutil.rmtree(directory, ignore_errors=True)  # never follows symbolic links
            os.close(lock)


def _abandoned(directory: Path) -> int | None:
    """Return a descriptor that keeps others from removing it, to be closed afterwards; None if it is not abandoned.

    Raises:
        OSError: It has an owner, or is no directory.
    """
    descriptor = _opened(directory)
    try:
        found = os.fstat(descriptor)
        if found.st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.listdir(descriptor) or time.time() - found.st_mtime > _BEING_MADE:
                return descriptor
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _opened(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
