"""One run of a contender's program: what it told, or why it told nothing."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence

from bench.consume.programs.reading import Outcome
from tests.integration.peers.running import ROOT


def run_program(command: Sequence[str], seconds: float) -> Outcome | str:
    """Run the command to its end, or for so many seconds at most. Its outcome, or, for people, what went wrong."""
    # A session of its own: what it has started in turn ends with it.
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        told, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"was not done after {seconds:g} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    last = (errors.strip().splitlines() or ["without a word"])[-1]
    if process.returncode != 0:
        return f"exited with {process.returncode}: {last}"
    try:
        return Outcome.of_json(told)
    except (ValueError, TypeError):
        return f"told no outcome but {told[-200:]!r}: {last}"
