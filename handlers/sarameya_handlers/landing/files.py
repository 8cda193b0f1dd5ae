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
        errno.EROFS,
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
    """Make it, with those above it, and have each new name on the disk. Nothing happens if it is there."""
    if directory.exists():
        return
    missing = [directory]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync(path.parent)


def put_if_absent(path: Path, content: bytes) -> bool:
    """Have a file with this content, durably and whole, if there is none of its name; False where there is one.

    Of all who try, one succeeds. Raises OSError: it was not put, and will not be; UnansweredError: that is not known.
    """
    make_directory(path.parent)
    temporary = _written(path.parent, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
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
        temporary.unlink(missing_ok=True)
        raise


def _written(directory: Path, content: bytes, *, durably: bool = True) -> Path:
    """A temporary file with this content. Where there is no room for it, nothing of it is left."""
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
        os.unlink(temporary)
        raise
    return temporary
