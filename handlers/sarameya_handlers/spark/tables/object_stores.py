"""Tables in object stores: trust in the store's puts, and a directory for staged records."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from stat import S_ISDIR

from sarameya import HandlerError
from sarameya_handlers.landing.stores.store import Store


def temporary_staging() -> Path:
    """Return this user's temporary directory for records that a Spark of this machine reads."""
    return Path(tempfile.gettempdir(), f"sarameya-staging-{os.getuid()}")


def make_staging(directory: Path) -> None:
    """Create a directory for staged records. Hide a temporary one from other users.

    Raises:
        OSError: It cannot be created, or is another user's.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if temporary_staging() not in (directory, *directory.parents):
        return
    status = temporary_staging().lstat()
    if status.st_uid != os.getuid() or not S_ISDIR(status.st_mode):
        raise PermissionError(errno.EACCES, "it is not this user's directory", str(temporary_staging()))
    temporary_staging().chmod(0o700)


def require_trust(name: str, store: Store) -> None:
    """Raise HandlerError unless it is known that the store refuses to replace an object, or the user says so."""
    if not store.is_trusted:
        raise HandlerError(
            f"{name}: exactly once depends on the object store's conditional puts, and this one's are not "
            "known here. Confirm them by store = { trusted = true }; docs/landing.md has a table of stores"
        )


def require_names_once(store: Store, directory: str) -> None:
    """Raise HandlerError if a name can be taken twice, by trying it. Raises OSError if the store fails."""
    if not store.gives_names_once(directory):
        raise HandlerError(
            f"a name in {store.place} can be taken twice, so records would not land exactly once: its "
            "file system, or its object store, does not refuse names that exist; choose another one"
        )
