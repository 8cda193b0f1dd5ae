"""Runs a contender's program once."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence

from bench.consume.programs.reading import Outcome
from tests.integration.peers.running import ROOT


def run_program(command: Sequence[str], seconds: float) -> Outcome | str:
    """Run the command, at most for `seconds`. Return its outcome, or a text that says what went wrong."""
    # A session of its own, so that its children can be killed with it.
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"was not done after {seconds:g} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    last = (errors.strip().splitlines() or ["no message"])[-1]
    if process.returncode != 0:
        return f"exited with {process.returncode}: {last}"
    try:
        return Outcome.of_json(output)
    except (ValueError, TypeError):
        return f"printed no outcome but {output[-200:]!r}: {last}"
