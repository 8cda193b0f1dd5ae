"""The lock between processes that run tests concurrently, and one that has to run alone."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exclusive_lock import turn

HOLDER = """
import sys
from pathlib import Path
from tests.exclusive_lock import turn
with turn(Path(sys.argv[1]), alone=sys.argv[2] == "alone"):
    print("has it", flush=True)
    sys.stdin.read()
"""


def holder(directory: Path, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(directory), how]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def has_lock(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == "has it\n"


def test_shared_lock_is_held_by_several_processes(tmp_path: Path) -> None:
    with turn(tmp_path, alone=False), holder(tmp_path, "shared") as other:
        assert has_lock(other)
        other.communicate()


@pytest.mark.parametrize(("first", "second"), [("alone", "shared"), ("shared", "alone"), ("alone", "alone")])
def test_exclusive_lock_blocks_other_processes(tmp_path: Path, first: str, second: str) -> None:
    with holder(tmp_path, first) as early:
        assert has_lock(early)
        with holder(tmp_path, second) as late:
            assert late.stdout is not None
            assert not select.select([late.stdout], [], [], 0.5)[0]  # wait to see that nothing happens
            early.communicate()
            assert has_lock(late)
            late.communicate()
