"""Leases: one process of a machine holds a lease until the process ends."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sarameya import HandlerError
from sarameya_handlers import LandingError
from sarameya_handlers.spark.engines import lease
from sarameya_handlers.spark.engines.lease import holds_lease, take_lease

HOLD = """
import sys
from pathlib import Path
from sarameya_handlers.spark.engines.lease import take_lease
take_lease(Path(sys.argv[1]), "no")
print("held", flush=True)
sys.stdin.read()
"""

ORPHAN = """
import fcntl, os, sys
fcntl.lockf(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX, 1, 1)
print("held", flush=True)
sys.stdin.read()
"""
"""A program that holds the lock of a JVM whose process has died."""


@contextmanager
def holding(program: str, file: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield another process, which holds a lock. The caller ends it."""
    command = [sys.executable, "-c", program, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_missing_lock_support_is_named_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lease.fcntl, "lockf", no_locks)
    with pytest.raises(Exception, match="No locks available"):
        take_lease(tmp_path / "lock", "somebody else has it")


def test_lease_can_be_taken_twice_by_the_same_process(tmp_path: Path) -> None:
    file = tmp_path / "below" / "lock"
    take_lease(file, "somebody else has it")
    take_lease(file, "somebody else has it")
    assert file.exists()


def test_lease_is_refused_until_its_process_has_ended(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with holding(HOLD, file) as other:
        with pytest.raises(LandingError, match=r"^somebody else has it \(.*lock is locked\)$"):
            take_lease(file, "somebody else has it")
        other.kill()
    take_lease(file, "somebody else has it")


def test_jvm_outliving_its_process_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, waited = tmp_path / "lock", []

    def end(seconds: float) -> None:
        waited.append(seconds)
        orphan.kill()
        orphan.wait()

    monkeypatch.setattr(lease.time, "sleep", end)
    with holding(ORPHAN, file) as orphan:
        take_lease(file, "somebody else has it")
    assert len(waited) == 1


def test_jvm_that_does_not_exit_is_named_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lock"
    monkeypatch.setattr(lease, "ORPHAN_ENDS_WITHIN", 0.0)
    with holding(ORPHAN, file) as orphan:
        with pytest.raises(LandingError, match=r"somebody else has it .*JVM of a process that has died.* kill it"):
            take_lease(file, "somebody else has it")
        orphan.kill()
    take_lease(file, "somebody else has it")


def test_passing_disk_error_is_not_a_configuration_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(LandingError, match=r"cannot write .*lock: Input/output error; check its disk"):
        take_lease(tmp_path / "lock", "no")


def test_unwritable_lease_directory_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HandlerError, match=r"cannot write .*choose a directory"):
        take_lease(tmp_path / "file" / "lock", "no")


def test_lease_ends_with_its_directory(tmp_path: Path) -> None:
    """Another process may have taken the lease in a recreated directory."""
    file = tmp_path / "table" / "lock"
    take_lease(file, "no")
    assert holds_lease(file)
    shutil.rmtree(file.parent)
    assert not holds_lease(file)
    file.parent.mkdir()
    with holding(HOLD, file) as other:
        with pytest.raises(LandingError, match="somebody else has it"):
            take_lease(file, "somebody else has it")
        other.kill()
    take_lease(file, "somebody else has it")
    assert holds_lease(file)
