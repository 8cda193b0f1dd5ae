"""Abandoned scratch directories, and those that still have an owner."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sarameya_handlers.spark.engines.jvm import scratch
from sarameya_handlers.spark.engines.jvm.scratch import new_place, own, owned_directory, remove_abandoned

OWNING = """
import sys
from sarameya_handlers.spark.engines.jvm.scratch import new_place, own
place = new_place()
place.mkdir(0o700)
own(place)
(place / "blockmgr-1" / "0c").mkdir(parents=True)
(place / "blockmgr-1" / "0c" / "temp_local_1").write_bytes(bytes(1000))
print(place, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@contextmanager
def owner() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Yield another process, and the directory that it owns."""
    command = [sys.executable, "-c", OWNING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def remove() -> None:
    remove_abandoned(lambda: None)


def abandoned_directory(number: int) -> Path:
    """Create the directory of a killed process: unlocked, with its content."""
    place = Path(tempfile.gettempdir(), f"sarameya-jvm-{number:016x}")
    (place / "spark-1").mkdir(parents=True)
    return place


def test_fault_66_directory_of_a_killed_process_is_removed(temporary: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with owner() as (process, place):
        remove()
        assert (place / "blockmgr-1" / "0c" / "temp_local_1").exists(), "its owner still runs"
        process.kill()
        process.wait()
        remove()
    assert os.listdir(temporary) == []
    assert f"{place} was left by a process that was killed" in caplog.text


def test_fault_66_directories_of_a_hundred_kills_are_removed(temporary: Path) -> None:
    for number in range(100):
        abandoned_directory(number)
    remove()
    assert os.listdir(temporary) == []


def test_directory_stays_while_a_child_holds_its_descriptor(temporary: Path) -> None:
    """A JVM may outlive its parent for a moment."""
    (place := new_place()).mkdir()
    descriptor = own(place)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(descriptor,)) as jvm:
        os.close(descriptor)
        remove()
        assert place.exists()
        jvm.kill()
    remove()
    assert os.listdir(temporary) == []


def test_owner_waits_while_another_process_checks_the_directory(temporary: Path) -> None:
    (place := new_place()).mkdir()
    checking = os.open(place, os.O_RDONLY)
    fcntl.flock(checking, fcntl.LOCK_EX)
    threading.Timer(0.1, os.close, [checking]).start()
    descriptor = own(place)
    remove()
    assert place.exists()
    os.close(descriptor)


def test_directory_of_another_owner_is_refused(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_CHECKED_WITHIN", 0.0)
    with owner() as (_, place), pytest.raises(BlockingIOError):
        own(place)


def test_owned_directory_is_removed_at_the_end_of_its_block(temporary: Path) -> None:
    with owned_directory() as place:
        (place / "file").write_text("")
        remove()
        assert place.exists()
    assert os.listdir(temporary) == []


def test_own_directory_stays(temporary: Path) -> None:
    (place := new_place()).mkdir()
    descriptor = own(place)
    remove()
    assert place.exists()
    os.close(descriptor)


def test_unlocked_new_directory_stays_for_a_while(temporary: Path) -> None:
    (place := new_place()).mkdir()
    remove()
    assert place.exists()
    before = time.time() - scratch._CREATED_WITHIN - 1
    os.utime(place, (before, before))
    remove()
    assert not place.exists()


def test_symbolic_links_are_not_followed(temporary: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    precious = tmp_path_factory.mktemp("precious")
    (precious / "file").write_text("")
    (temporary / f"sarameya-jvm-{1:016x}").symlink_to(precious)
    (abandoned_directory(2) / "link").symlink_to(precious)
    remove()
    assert os.listdir(precious) == ["file"]
    assert os.listdir(temporary) == [f"sarameya-jvm-{1:016x}"]


@pytest.mark.parametrize(
    "name",
    ["spark-1", "blockmgr-1", "sarameya-jvm-1", "sarameya-demo", f"sarameya-jvm-{1:016X}-"],
)
def test_directory_with_another_name_stays(temporary: Path, name: str) -> None:
    (temporary / name / "spark-1").mkdir(parents=True)
    remove()
    assert os.listdir(temporary) == [name]


def test_file_with_a_scratch_name_stays(temporary: Path) -> None:
    (temporary / f"sarameya-jvm-{1:016x}").write_text("")
    remove()
    assert len(os.listdir(temporary)) == 1


def test_owned_directory_emptied_by_a_cleaner_stays(temporary: Path) -> None:
    with owner() as (_, place):
        shutil.rmtree(place / "blockmgr-1")
        (place / "pid").unlink()
        before = time.time() - scratch._CREATED_WITHIN - 1
        os.utime(place, (before, before))
        remove()
        assert place.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_directory_of_another_user_stays(temporary: Path) -> None:
    os.chown(abandoned_directory(1), 12345, 12345)
    remove()
    assert len(os.listdir(temporary)) == 1


def test_concurrent_removals_both_succeed(temporary: Path) -> None:
    for number in range(50):
        abandoned_directory(number)
    program = "from sarameya_handlers.spark.engines.jvm.scratch import *; remove_abandoned(lambda: None)"
    both = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    assert os.listdir(temporary) == []
