"""The guard of a JVM whose parent ends. A shell takes the place of the JVM, and inherits its parent's output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from sarameya_handlers.spark.engines.jvm import guard as jvm_guard
from sarameya_handlers.spark.engines.jvm.guard import guarded_directory
from sarameya_handlers.spark.errors import SparkStartError
from tests.integration.processes import children

STARTING = """
import subprocess, sys
from sarameya_handlers.spark.engines.jvm.guard import guarded_directory
with guarded_directory() as guard:
    (guard.directory / "gateway").write_text("secret")
    if len(sys.argv) == 1:
        print("up", flush=True)
        sys.stdin.read()
    jvm = subprocess.Popen(["/bin/sh", "-c", sys.argv[1]], stdin=subprocess.PIPE, process_group=0)
    guard.watch(jvm)
    if len(sys.argv) > 2:
        guard.unwatch()
    jvm.stdin.write(b"\\n")  # until then it is not guarded
    jvm.stdin.flush()
    jvm.wait()
"""
UP = "read -r _; echo up; exec sleep 60"
STUBBORN = "read -r _; trap '' TERM; echo up; while true; do sleep 60; done"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@asynccontextmanager
async def starting(*jvm: str) -> AsyncIterator[trio.Process]:
    """Yield a process that has printed `up`. At the end no process of it may be left."""
    command = [sys.executable, "-c", STARTING, *jvm]
    with trio.fail_after(30):
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        output = b""
        while not output.endswith(b"\n") and (more := await process.stdout.receive_some()):
            output += more  # an unbuffered print arrives in two pieces
        assert output == b"up\n"
        yield process
        assert await process.stdout.receive_some() == b"", "the output ends once no process has it open"
        await process.wait()
        await process.stdout.aclose()
        assert process.stdin is not None
        await process.stdin.aclose()


async def wait_until_empty(temporary: Path) -> None:
    """Wait until the directory is empty. The guard ends a moment after the JVM."""
    with trio.fail_after(30):
        while os.listdir(temporary):
            await trio.sleep(0.02)


@pytest.mark.parametrize("jvm", [(UP,), (STUBBORN,), ()], ids=["up", "stubborn", "none-yet"])
async def test_starting_jvm_ends_with_its_killed_parent(temporary: Path, jvm: tuple[str, ...]) -> None:
    async with starting(*jvm) as process:
        assert len(os.listdir(temporary)) == 1
        process.kill()
    await wait_until_empty(temporary)


async def test_fault_66_started_jvm_exits_by_itself_before_cleanup(temporary: Path) -> None:
    """The JVM gets no signal, since it may be in the middle of a commit."""
    async with starting(
        "trap 'echo bad' TERM; read -r _; echo up; read -r _; sleep 1; echo ended >&2", "has started"
    ) as process:
        process.kill()
    await wait_until_empty(temporary)


async def test_guard_survives_termination_signals(temporary: Path) -> None:
    async with starting(UP) as process:
        (guard,) = (pid for pid in children("sh", process.pid) if is_guard(pid))  # the JVM may be one, too
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(guard, number)
        process.kill()
    await wait_until_empty(temporary)


def is_guard(shell: int) -> bool:
    return b"rm -rf" in Path(f"/proc/{shell}/cmdline").read_bytes()


def test_new_guard_survives_ctrl_c_of_the_terminal(temporary: Path) -> None:
    """The terminal signals the whole process group, and the new guard is still in it.

    The process handles SIGINT, as a service does.
    """
    program = """
import os, signal, threading
from sarameya_handlers.spark.engines.jvm.guard import guarded_directory
signal.signal(signal.SIGINT, lambda *_: None)
over = threading.Event()
def interrupt():
    while not over.is_set():
        os.killpg(0, signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    for _ in range(50):
        with guarded_directory():
            pass
finally:
    over.set()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, process_group=0)
    assert os.listdir(temporary) == []


def test_end_of_block_removes_the_directory_not_the_process(temporary: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0) as process:
        with guarded_directory() as guard:
            guard.watch(process)
            (guard.directory / "gateway").write_text("secret")
            assert guard.directory.stat().st_mode & 0o777 == 0o700
        assert os.listdir(temporary) == []
        assert process.communicate(b"alive", timeout=30)[0] == b"alive"


def test_exit_before_the_guard_is_ready_leaves_nothing(temporary: Path) -> None:
    for _ in range(20):
        guard = jvm_guard._start_guard(temporary / "place")
        assert guard.stdin is not None
        assert guard.stdout is not None
        guard.stdout.close()
        guard.stdin.close()
        assert guard.wait(timeout=30) == 0
        assert os.listdir(temporary) == []


def test_killed_guard_raises_an_error(temporary: Path) -> None:
    with subprocess.Popen(["true"]) as process, guarded_directory() as guard:
        guard._process.kill()
        guard._process.wait()
        with pytest.raises(SparkStartError, match=r"the shell that would guard it was killed; start again$"):
            guard.watch(process)
    assert os.listdir(temporary) == []


def test_loader_warning_of_the_shell_is_no_failure(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/nonexistent.so")  # the loader warns about it in each program that starts
    with guarded_directory() as guard:
        assert guard.directory.is_dir()


def test_failed_directory_creation_raises_a_start_error(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "missing"))
    match = r"^the directory for Spark's JVM cannot be created: .*No such file or directory"
    with pytest.raises(SparkStartError, match=match):
        with guarded_directory():
            pytest.fail("the directory cannot exist")
