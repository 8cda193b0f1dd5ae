"""Ctrl-C in a program on asyncio: the member leaves the group, and the program ends."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from tests.asyncio.kit import cluster_of, run

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("handler", "interrupts", "expected"),
    [
        ("wait", 1, ["message", "cleanup", "CancelledError", "interrupted"]),
        # The first one cancels the program's task, which the blocked loop does not notice. The second one interrupts
        # the handler.
        ("block", 2, ["message", "cleanup", "CancelledError", "interrupted"]),
    ],
)
def test_interrupted_program_leaves_the_group_and_ends(handler: str, interrupts: int, expected: list[str]) -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-W", "error", "-m", "tests.asyncio.interrupted_program"),
                *(",".join(cluster.bootstrap_servers), handler),
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None
            assert process.stderr is not None
            lines = [await process.stdout.readline()]
            for _ in range(interrupts):
                process.send_signal(signal.SIGINT)
                await asyncio.sleep(0.2)  # two signals at the same instant are one
            rest, errors = await process.communicate()
            assert [line.decode().strip() for line in lines] + rest.decode().split() == expected
            assert errors.decode() == ""
            assert process.returncode == 0
            assert await cluster.committed("billing") == 1
            assert await cluster.members("billing") == 0

    run(main)
