"""Peak memory of a program and its children."""

from __future__ import annotations

import sys

import pytest
import trio

from bench.common.watching import watching
from bench.members.running import open_program

pytestmark = pytest.mark.integration

HELD = 60_000_000
HOLDS = f"import time; held = bytearray(b'1') * {HELD}; time.sleep(2); del held; print('no more', flush=True)"
STARTS = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLDS!r}], check=True)"


async def test_peak_includes_children_and_remains() -> None:
    async with open_program([sys.executable, "-c", STARTS], bytes) as program, watching(program.pid) as peak:
        await program.until(lambda: bool(program.lines), "the release of its memory")
        await trio.sleep(0.3)

    assert peak.rss_bytes >= HELD
