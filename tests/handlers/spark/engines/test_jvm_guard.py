"""What is being started when we end. In place of a JVM stands a shell, which has its parent's output open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trio

from sarameya_handlers.spark.engines.jvm_guard import guarded

STARTING = """
import subprocess, sys
from sarameya_handlers.spark.engines.jvm_guard import guarded
jvm = subprocess.Popen(["/bin/sh", "-c", sys.argv[2]], stdin=subprocess.PIPE, process_group=0)
with guarded(jvm, sys.argv[1]):
    jvm.wait()
"""
UP = "echo up; exec sleep 60"
STUBBORN = "trap '' TERM; echo up; while true; do sleep 60; done"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    (place / "gateway").write_text("secret")
    return place


@pytest.mark.parametrize("jvm", [UP, STUBBORN])
async def test_process_that_is_killed_takes_what_it_starts_along(directory: Path, jvm: str) -> None:
    command = [sys.executable, "-c", STARTING, str(directory), jvm]
    with trio.fail_after(30):
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert await process.stdout.receive_some() == b"up\n"
        process.kill()
        assert await process.stdout.receive_some() == b"", "which comes only when the last that has it open is gone"
        await process.wait()
        while await trio.Path(directory).exists():  # the guard ends a moment after what it guards
            await trio.sleep(0.02)


def test_block_that_is_left_leaves_process_and_directory_alone(directory: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0) as process:
        with guarded(process, str(directory)):
            pass
        assert process.communicate(b"alive", timeout=30)[0] == b"alive"
    assert directory.exists()
