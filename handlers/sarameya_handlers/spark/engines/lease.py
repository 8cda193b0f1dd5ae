"""Lease on a table or catalog: only one process of a machine may commit there with a Spark driver of its own.

A lease is two locked bytes of a file. The process locks the first, its JVM the second. After its process has died, a
JVM ends by itself, but not at once (after a second, or when it resumes if it was stopped), and may still make a commit.
The next process waits for the JVM's end.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs

from sarameya import SarameyaError
from sarameya_handlers.spark.errors import LandingError, directory_error

T = TypeVar("T")

ORPHAN_ENDS_WITHIN = 15.0
"""Seconds within which a JVM must end after its process has died."""
_POLL_INTERVAL = 0.1
_OWN, _JVMS = 0, 1
"""Offsets of the locked bytes."""


@attrs.define(slots=True)
class _Lease:
    """A lease of this process, held until the process ends."""

    descriptor: int
    jvm: Any = None
    """pyspark's gateway to the JVM that has locked its byte; None if no JVM has."""
    lock: Any = None
    """The JVM's lock. This reference keeps it, and the open file, alive."""


_leases: dict[Path, _Lease] = {}
_leases_lock = threading.Lock()


def take_lease(file: Path, refusal: str) -> None:
    """Make this process the only holder of a lease on this machine, until it and its JVM have ended.

    Args:
        file: The lease's file.
        refusal: Text of the error if another process holds the lease.

    Raises:
        LandingError: Another process holds the lease. It may end.
        HandlerError: The file cannot be written.
    """
    with _leases_lock:
        if not holds_lease(file):
            _leases[file.resolve()] = _Lease(_acquire(file, refusal))
        _share(file.resolve())


def holds_lease(file: Path) -> bool:
    """Return whether this process holds the lease. After the file was recreated, its lease is another one."""
    lease = _leases.get(file.resolve())
    try:
        return lease is not None and os.path.samestat(os.fstat(lease.descriptor), file.stat())
    except FileNotFoundError:
        return False


def share_leases() -> None:
    """Make the JVM that has just started hold this process's leases, too. Raises LandingError."""
    with _leases_lock:
        for file in _leases:
            if holds_lease(file):
                _share(file)


def _acquire(file: Path, refusal: str) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise directory_error(
            f"cannot write {file}", error, "choose a directory that this user may write to"
        ) from error
    try:
        # The lock belongs to the process: a fork does not inherit it, and closing any other descriptor of the file
        # would release it.
        if not _try_lock(descriptor, _OWN):
            raise LandingError(f"{refusal} ({file} is locked)")
        text = f"{refusal} ({file} is locked by the JVM of a process that has died, and the JVM does not end: kill it)"
        _poll(lambda: _try_lock(descriptor, _JVMS), LandingError(text))
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, _JVMS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _try_lock(descriptor: int, byte: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise  # for example a file system without locks
    return True


def _poll(take: Callable[[], T], refusal: SarameyaError) -> T:
    """Call `take` until it returns a true value, and return that. Raises `refusal` after ORPHAN_ENDS_WITHIN."""
    deadline = time.monotonic() + ORPHAN_ENDS_WITHIN
    while not (taken := take()):
        if time.monotonic() >= deadline:
            raise refusal
        time.sleep(_POLL_INTERVAL)
    return taken


def _share(file: Path) -> None:
    """Let this process's JVM lock its byte, if there is a JVM. Java's file locks belong to a process, as ours do."""
    lease, gateway = _leases[file], _gateway()
    if gateway is None or lease.jvm is gateway:
        return
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        channel = gateway.jvm.java.io.RandomAccessFile(str(file), "rw").getChannel()
        text = f"Spark's JVM cannot lock {file}: another JVM has locked it, and does not end"
        # An earlier JVM of this process that hung and was killed may not have ended yet.
        lock = _poll(lambda: channel.tryLock(_JVMS, 1, False), LandingError(text))
    except Py4JError as error:
        raise LandingError(f"Spark's JVM cannot lock {file}") from error
    lease.jvm, lease.lock = gateway, lock


def _gateway() -> Any:
    # A process has at most one JVM, and none before it imports pyspark.
    pyspark = sys.modules.get("pyspark")
    return pyspark.SparkContext._gateway if pyspark else None
