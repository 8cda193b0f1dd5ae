"""`sarameya groups offsets reset` on a terminal: it shows a progress bar, and with `--quiet` nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from functools import partial

import trio

from sarameya.embedded import EmbeddedCluster


async def on_terminal(*argv: str) -> tuple[int, str, str]:
    """Return the exit code, stdout, and the output to the terminal."""
    controller, terminal_end = os.openpty()
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "sarameya.service", *argv],
        stdout=subprocess.PIPE,
        stderr=terminal_end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(terminal_end)
    assert process.stdout is not None
    seen: list[bytes] = []
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.to_thread.run_sync, _read, controller, seen, abandon_on_cancel=True))
            out = b"".join([chunk async for chunk in process.stdout])
        code = await process.wait()
    return code, out.decode(), b"".join(seen).decode()


def _read(terminal: int, seen: list[bytes]) -> None:
    with (
        open(terminal, "rb", buffering=0) as stream,
        suppress(OSError),
    ):  # raised once the other end is closed
        while chunk := stream.read(65536):
            seen.append(chunk)


async def test_reset_shows_a_bar_unless_quiet() -> None:
    async with EmbeddedCluster({"orders": 3}) as cluster:
        reset = ["groups", "offsets", "reset", "g", "--topic", "orders", "--to-latest", "--execute"]
        reset += ["--bootstrap", ",".join(cluster.bootstrap_servers)]
        code, out, seen = await on_terminal(*reset)
        assert (code, out.splitlines()[-1]) == (0, "Done.")
        assert "reading group 'g' and its logs" in seen
        assert "committing for 3 partitions" in seen
        assert "━" in seen
        assert seen.count("\n") == 1, "the bar is one line"
        assert seen.endswith("\x1b[1A\x1b[2K"), "the bar is erased at the end"

        code, quiet_out, seen = await on_terminal(*reset, "--quiet")
        assert (code, quiet_out.splitlines()[-1], seen) == (0, "Done.", "")
