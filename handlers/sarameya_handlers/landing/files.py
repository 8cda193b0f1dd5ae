"""Durable files and names, and names that only one process can take.

For local file systems, and mounted ones with the same semantics of `link(2)`. Blocking.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from sarameya_handlers.landing.errors import UnansweredError

TEMPORARY = ".put-"
"""Prefix of temporary files that are about to get their final name. Readers skip names that start with a dot."""

PROBE = "probe-"
"""In the names of files by which file systems, stores and Spark are tried. No link and no compaction has such files."""

_UNNAMED = (errno.EACCES, errno.EDQUOT, errno.ENOENT, errno.ENOSPC, errno.EPERM, errno.EROFS)
"""Errors of link(2) after which the name does not exist, and will not. Any other error may mean a lost response: a
mount stops waiting for its server, which may still execute the call."""


_UNUSABLE = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOSYS,
        errno.ENOTDIR,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.EXDEV,
    }
)
"""Errors that remain until a person chooses another directory or file system, or grants a permission."""


def is_refusal(error: OSError) -> bool:
    """Return whether a person has to change something. Otherwise the error is passing, as a full disk is."""
    return error.errno in _UNUSABLE


def sync(path: Path) -> None:
    """Sync a file's bytes, or a directory's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Create a directory and its parents, and sync each name to the disk. Do nothing if the directory exists.

    Raises:
        OSError: A directory cannot be created, or its name cannot be synced. It is removed again then, so that no
            process relies on a name that is not durable.
    """
    if is_there(directory):
        return
    missing = [directory]
    while not is_there(missing[-1].parent):
        missing.append(missing[-1].parent)
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        try:
            sync(path.parent)
        except OSError:
            with suppress(OSError):  # another process has put a file into it
                path.rmdir()
            raise


def is_there(path: Path) -> bool:
    """Return whether a file or a directory exists.

    Path.exists returns False for some errors, in newer versions of Python for all. But if a disk does not respond, the
    file may exist.

    Raises:
        OSError: The file system does not respond.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def listed(directory: Path) -> list[Path]:
    """Return the entries of a directory, in the order of their names; none if the directory does not exist.

    Path.glob yields nothing if a directory cannot be listed, for some errors, in newer versions of Python for all.

    Raises:
        OSError: The directory cannot be listed.
    """
    try:
        return [directory / name for name in sorted(os.listdir(directory))]
    except (FileNotFoundError, NotADirectoryError):
        return []


def put_if_absent(path: Path, content: bytes, check: Callable[[], object] = lambda: None) -> bool:
    """Put a file with this content, durably and whole, if no file has its name. Exactly one caller succeeds.

    Args:
        path: Name of the file. Its directory is created if missing.
        content: The whole content.
        check: Called when the temporary file is complete, right before the name is taken. Its exceptions propagate,
            and nothing is put.

    Returns:
        True if this call put the file; False if another file has its name.

    Raises:
        UnansweredError: The outcome is unknown, and the put may still take effect.
        OSError: The file was not put, and will not be.
    """
    make_directory(path.parent)
    temporary = _written(path.parent, content)
    try:
        check()
        os.link(temporary, path)
    except FileExistsError:
        if not _is_same(temporary, path):
            return False
    except OSError as error:
        if error.errno in _UNNAMED:
            raise
        raise _unanswered(error) from error
    finally:
        # A sweep removes the rest; the outcome of the put is more important than this error.
        with suppress(OSError):
            temporary.unlink()
    try:
        sync(path.parent)
    except OSError as error:
        raise _unanswered(error) from error
    return True


def _is_same(temporary: Path, path: Path) -> bool:
    """Return whether the name is our own file's: an NFS client may send a call twice, and the second one fails.

    Raises:
        UnansweredError: The name is taken, and its file cannot be examined.
    """
    try:
        return path.samefile(temporary)
    except OSError as error:
        raise _unanswered(error) from error


def _unanswered(error: OSError) -> UnansweredError:
    return UnansweredError(error.errno, error.strerror, error.filename, None, error.filename2)


def names_are_given_once(directory: Path) -> bool:
    """Return whether link(2) refuses a taken name in this directory, by trying it.

    Raises:
        OSError: link(2) fails for a new name.
    """
    with tempfile.NamedTemporaryFile(dir=directory, prefix=PROBE) as probe:
        name = f"{probe.name}-linked"
        os.link(probe.name, name)
        try:
            os.link(probe.name, name)
        except FileExistsError:
            return True
        finally:
            os.unlink(name)
    return False


def put_over(path: Path, content: bytes, *, durably: bool = False) -> None:
    """Replace a file atomically. Unless `durably`, the new content may be lost when the machine goes down."""
    temporary = _written(path.parent, content, durably=durably)
    try:
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):  # a sweep removes it
            temporary.unlink()
        raise
    if durably:
        sync(path.parent)


def _written(directory: Path, content: bytes, *, durably: bool = True) -> Path:
    """Write a temporary file, and remove it again if that fails."""
    # Not by mkstemp, whose files only this user may read: another user may read the table.
    temporary = directory / f"{TEMPORARY}{uuid4().hex}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durably:
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):  # a sweep removes it; the first error is more important
            os.unlink(temporary)
        raise
    return temporary
