"""The demo as `make demo` runs it: its report is correct, and it leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import attrs
import pytest
import trio

from tests.integration.processes import marked

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
DEADLINE = 900.0
"""Longest time in seconds. An idle machine with two cores needs 35 s, a busy one several times that."""


@attrs.frozen
class Demo:
    """A running demo. All its processes, also indirect children, have `mark` in their environment."""

    process: trio.Process
    directory: Path
    mark: str

    @property
    def stdout(self) -> str:
        return (self.directory / "stdout").read_text()

    @property
    def stderr(self) -> str:
        return (self.directory / "stderr").read_text()

    def processes(self) -> list[str]:
        """Return the command lines of its running processes."""
        return marked(self.mark)

    async def until_shown(self, text: str) -> None:
        while text not in self.stderr:
            assert self.process.returncode is None, self.stderr
            await trio.sleep(0.1)

    async def ended(self) -> None:
        """Wait until all its processes have ended: a JVM ends shortly after the Python process that started it."""
        while self.processes():
            await trio.sleep(0.1)


@asynccontextmanager
async def demo(directory: Path, *arguments: str) -> AsyncIterator[Demo]:
    """Run `python -m examples.flights ARGUMENTS` with its own temporary directory; kill it if it still runs."""
    mark = f"demo-{uuid4().hex}"
    temporary = directory / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary), "DEMO_MARK": mark}
    command = [sys.executable, "-m", "examples.flights", "--landing", str(directory / "landing"), *arguments]
    with (directory / "stdout").open("wb") as stdout, (directory / "stderr").open("wb") as stderr:
        process = await trio.lowlevel.open_process(command, cwd=ROOT, env=environment, stdout=stdout, stderr=stderr)
    running = Demo(process, directory, mark)
    try:
        with trio.fail_after(DEADLINE):
            yield running
            await running.ended()
    finally:
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()
    assert list(temporary.iterdir()) == []


def number(report: str, name: str) -> int:
    found = re.search(rf"^{name} +([\d,]+)$", report, re.MULTILINE)
    assert found, report
    return int(found[1].replace(",", ""))


async def test_demo_lands_each_flight_once_despite_a_kill(tmp_path: Path) -> None:
    async with demo(tmp_path) as running:
        assert await running.process.wait() == 0, running.stderr
    assert number(running.stdout, "rows landed") == 336_776
    assert number(running.stdout, "rows expected") == 336_776
    assert number(running.stdout, "duplicates") == 0
    assert number(running.stdout, "missing") == 0
    assert re.search(r"^UA +58,665 +3\.6$", running.stdout, re.MULTILINE)
    assert running.stderr.splitlines()[-1].startswith("landed: 336,776 of 336,776 (100%), 336,776 produced")
    assert re.search(r"killed worker 1 \(pid \d+\)", running.stderr)
    assert "the other member has all 4 partitions now" in running.stderr


@pytest.mark.exhaustive
async def test_demo_without_a_kill_lands_each_flight_once(tmp_path: Path) -> None:
    async with demo(tmp_path, "--rows", "60000", "--no-kill") as running:
        assert await running.process.wait() == 0, running.stderr
    assert number(running.stdout, "duplicates") == number(running.stdout, "missing") == 0
    assert number(running.stdout, "rows landed") == 60_000
    assert "killed" not in running.stderr


async def test_interrupted_demo_ends_quietly_with_all_processes(tmp_path: Path) -> None:
    async with demo(tmp_path) as running:
        await running.until_shown("landed: ")
        running.process.send_signal(signal.SIGINT)
        assert await running.process.wait() == 130
    assert running.stdout == ""
    assert "Traceback" not in running.stderr
    assert "error" not in running.stderr.lower()


async def test_second_demo_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    async with demo(tmp_path, "--rows", "1000") as first:
        await first.until_shown("waiting for 2 members")
        async with demo(tmp_path / "second", "--landing", str(tmp_path / "landing")) as second:
            assert await second.process.wait() == 1
        assert "another demo uses" in second.stderr
        assert second.stderr.count("\n") == 1
        first.process.send_signal(signal.SIGINT)
        assert await first.process.wait() == 130
