"""What must be on the disk before something else is said to be: files, names, and names that are taken only once.

For local file systems, and mounted ones with the same meaning of `link(2)`. Blocking.
"""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

TEMPORARY = "put-"
"""What names of files begin with that are about to get their own."""

_UNNAMED = (errno.EACCES, errno.EDQUOT, errno.ENOENT, errno.ENOSPC, errno.EPERM, errno.EROFS)
"""Answers of a file system that does not give a name, nor will. Any other error may stand for no answer: of a mount
that waits for its server only for so long, which may carry it out later."""


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
"""Answers that stay until somebody chooses another directory, or grants this one, or another file system."""


class UnansweredError(OSError):
    """Whether a file got its name is not known: it may have, or may yet."""


def is_refusal(error: OSError) -> bool:
    """Whether it is a matter of configuration. Else it may pass: a full disk, a server that is away."""
    return error.errno in _UNUSABLE


def sync(path: Path) -> None:
    """Bring a file's bytes, or a directory's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Make a directory and its parents, each name synced to the disk. Do nothing if the directory exists.

    Raises:
        OSError: A directory cannot be made, or its name cannot be synced. Then it is removed again, so that nobody
            takes the name for a durable one.
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
            with suppress(OSError):  # somebody else has put something into it
                path.rmdir()
            raise


def is_there(path: Path) -> bool:
    """Return whether a file or a directory exists.

    Path.exists returns False for some errors, in newer versions of Python for all. A disk that does not answer must not
    be taken for one that has no such file.

    Raises:
        OSError: The file system does not say.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def put_if_absent(path: Path, content: bytes) -> bool:
    """Put a file with this content, durably and whole, if no file has its name. Of all who try, one succeeds.

    Returns:
        True if this call has put the file; False if another file has its name.

    Raises:
        UnansweredError: Whether the file was put is not known, nor whether it will be.
        OSError: The file was not put, and will not be.
    """
    make_directory(path.parent)
    temporary = _written(path.parent, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return _is_same(temporary, path)
    except OSError as error:
        if error.errno in _UNNAMED:
            raise
        raise _unanswered(error) from error
    finally:
        # What is left of it a sweep removes; what has become of the name is more important to know.
        with suppress(OSError):
            temporary.unlink()
    try:
        sync(path.parent)
    except OSError as error:
        raise _unanswered(error) from error
    return True


def _is_same(temporary: Path, path: Path) -> bool:
    """Return whether the name is that of our own file: an NFS client may send a call twice, and the second one fails.

    Raises:
        UnansweredError: The name was said to be taken, and what it names cannot be seen.
    """
    try:
        return path.samefile(temporary)
    except OSError as error:
        raise _unanswered(error) from error


def _unanswered(error: OSError) -> UnansweredError:
    return UnansweredError(error.errno, error.strerror, error.filename, None, error.filename2)


def names_are_given_once(directory: Path) -> bool:
    """Whether link(2) refuses a name in this directory that is taken: it is tried. Raises OSError if it gives none."""
    with tempfile.NamedTemporaryFile(dir=directory, prefix="probe-") as probe:
        name = f"{probe.name}-linked"
        os.link(probe.name, name)
        try:
            os.link(probe.name, name)
        except FileExistsError:
            return True
        finally:
            os.unlink(name)
    return False


def put_over(path: Path, content: bytes) -> None:
    """Have a file with this content, whole, in place of what had its name. Not durably: for what may be lost."""
    temporary = _written(path.parent, content, durably=False)
    try:
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):  # a sweep removes it
            temporary.unlink()
        raise


def _written(directory: Path, content: bytes, *, durably: bool = True) -> Path:
    """Write a temporary file. If that fails, remove what was written of it."""
    # Not mkstemp's, which nobody else may read: who reads the table may be another user.
    temporary = directory / f"{TEMPORARY}{uuid4().hex}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durably:
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):  # a sweep removes it; why the file was not written is more important
            os.unlink(temporary)
        raise
    return temporary
