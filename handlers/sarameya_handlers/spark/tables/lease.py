"""A place in which only one process of a machine may commit, with a Spark driver of its own.

It is two bytes of a file. The first one is the process's; the second one its JVM's, which ends by itself when the
process has died, but not at once (a second; as long as it stands still, if it was stopped), and may carry out a commit
meanwhile. Whoever comes next waits for that.
"""

from __future__ import annotations

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
from sarameya_handlers.spark.errors import LandingError, of_directory

T = TypeVar("T")

ORPHAN_ENDS_WITHIN = 15.0
"""Seconds that a JVM is given whose process has died."""
_LOOK_AGAIN = 0.1
_OWN, _JVMS = 0, 1
"""The bytes."""


@attrs.define(slots=True)
class _Lease:
    """Of this process: for as long as it lives."""

    descriptor: int
    jvm: Any = None
    """pyspark's way into the JVM that holds its byte; None while there is none."""
    lock: Any = None
    """The JVM's. It keeps the file open, and is kept open itself by being known here."""


_leases: dict[Path, _Lease] = {}
_taking = threading.Lock()


def take_lease(file: Path, refusal: str) -> None:
    """Make this process the only one that holds it, on this machine; `refusal` is said where another does.

    Gone with the process and its JVM, however they end. Raises LandingError where another one holds it, which may end;
    HandlerError where nothing can be written.
    """
    with _taking:
        if not holds_lease(file):
            _leases[file.resolve()] = _Lease(_taken(file, refusal))
        _share(file.resolve())


def holds_lease(file: Path) -> bool:
    """Whether this process has taken it, and it is still there: one of a directory that was made anew is another."""
    lease = _leases.get(file.resolve())
    try:
        return lease is not None and os.path.samestat(os.fstat(lease.descriptor), file.stat())
    except FileNotFoundError:
        return False


def share_leases() -> None:
    """Have the JVM that has just been started hold what this process does. Raises LandingError."""
    with _taking:
        for file in _leases:
            if holds_lease(file):
                _share(file)


def _taken(file: Path, refusal: str) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise of_directory(f"cannot write {file}", error, "choose a directory that this user may write to") from error
    try:
        # Of the process, not of the descriptor: a fork has none, and another open file of ours would end it.
        if not _locks(descriptor, _OWN):
            raise LandingError(f"{refusal} ({file} is locked)")
        it_stays = f"{refusal} ({file} is locked by the JVM of a process that has died, and it does not end: kill it)"
        _soon(lambda: _locks(descriptor, _JVMS), LandingError(it_stays))
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, _JVMS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _locks(descriptor: int, byte: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except OSError:
        return False
    return True


def _soon(take: Callable[[], T], refusal: SarameyaError) -> T:
    """What `take` gives, once it gives anything: as long as an orphan may take to end. Raises `refusal`."""
    patience = time.monotonic() + ORPHAN_ENDS_WITHIN
    while not (taken := take()):
        if time.monotonic() >= patience:
            raise refusal
        time.sleep(_LOOK_AGAIN)
    return taken


def _share(file: Path) -> None:
    """With the JVM of this process, if it has one. Java's locks of files are a process's, as ours are."""
    lease, gateway = _leases[file], _gateway()
    if gateway is None or lease.jvm is gateway:
        return
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        channel = gateway.jvm.java.io.RandomAccessFile(str(file), "rw").getChannel()
        it_stays = f"Spark's JVM cannot lock {file}: another one holds it, and does not end"
        # One of ours that hung and was killed may not have gone yet.
        lock = _soon(lambda: channel.tryLock(_JVMS, 1, False), LandingError(it_stays))
    except Py4JError as error:
        raise LandingError(f"Spark's JVM cannot lock {file}") from error
    lease.jvm, lease.lock = gateway, lock


def _gateway() -> Any:
    # One process has one JVM; without pyspark it has none.
    pyspark = sys.modules.get("pyspark")
    return pyspark.SparkContext._gateway if pyspark else None
