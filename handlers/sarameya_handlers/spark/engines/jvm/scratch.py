"""Directories for temporary files, mostly of our JVMs, and the removal of directories whose owners are dead.

A JVM that is killed leaves its files in `java.io.tmpdir`: Spark's `spark-*` and `blockmgr-*`, tens of megabytes each.
So each of our JVMs has a directory of its own, which this process locks. The kernel unlocks it when the process and
its JVM have ended, in whatever way: a process id that is reused, or is of another PID namespace, cannot be mistaken for
an owner. The lock is on the directory itself. A cleaner of old temporary files would remove a locked file in it under a
live JVM; systemd-tmpfiles leaves locked directories alone. Directories of other users are not touched, and symbolic
links are not followed.
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
"""Maximum seconds for which another process holds the lock while it checks whether a directory is abandoned."""
_CREATED_WITHIN = 600.0
"""Maximum seconds in which an empty directory without an owner may still be in creation, and is not abandoned."""


def new_place(kind: str = "jvm") -> Path:
    """Return the path of a directory that does not exist yet.

    Raises:
        FileNotFoundError: There is no directory for temporary files.
    """
    return Path(tempfile.gettempdir(), f"sarameya-{kind}-{secrets.token_hex(8)}")


def own(directory: Path) -> int:
    """Make this process the owner of a directory, as long as the returned descriptor is open, here or in a child.

    Raises:
        OSError: The directory cannot be opened, or nothing can be written there.
    """
    descriptor = _open(directory)
    try:
        _lock(descriptor)
        # After the lock, since a directory that is neither empty nor locked is abandoned.
        (directory / "pid").write_text(f"{os.getpid()}\n")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int) -> None:
    """Lock a directory. Wait for another process that checks whether the directory is abandoned.

    Raises:
        OSError: The directory has another owner.
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
            if error.errno in _NO_LOCKS:  # without locks, `_abandoned` fails, too, and the directory stays
                return
            raise


@contextmanager
def owned_directory() -> Iterator[Path]:
    """Make a directory that exists for a block. If this process is killed, the next start of a JVM removes it.

    Raises:
        OSError: The directory cannot be made.
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
        check: Called before each directory. May raise to stop.
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
            logger.info("%s was left by a process that was killed, and is removed", directory)
            shutil.rmtree(directory, ignore_errors=True)  # never follows symbolic links
            os.close(lock)


def _abandoned(directory: Path) -> int | None:
    """Lock a directory for removal, and return the descriptor to close afterwards; None if it is not abandoned.

    Raises:
        OSError: The directory has an owner, or is not a directory.
    """
    descriptor = _open(directory)
    try:
        found = os.fstat(descriptor)
        if found.st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.listdir(descriptor) or time.time() - found.st_mtime > _CREATED_WITHIN:
                return descriptor
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _open(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
