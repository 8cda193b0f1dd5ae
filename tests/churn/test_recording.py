"""Recordings depend only on their seed: `python -m tests.churn --compare` relies on this."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.churn.__main__ import _print_differences
from tests.churn.recording import record_seed


def test_recording_is_the_same_in_another_process() -> None:
    """The other process hashes strings differently: nothing may depend on the order of a set."""
    text = record_seed(4)
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    command = [sys.executable, "-m", "tests.churn", "--text", "4"]
    root = Path(__file__).parents[2]
    again = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
    assert again.stdout == text


def test_recording_has_requests_events_and_calls() -> None:
    text = record_seed(4)
    for part in ("[wire JOIN_GROUP]", "[wire OFFSET_COMMIT]", "[event] partitions assigned", "[calls] setup"):
        assert part in text


def test_recording_that_fails_twice_counts_as_different() -> None:
    before = {1: "FAILED:KeyError", 2: "c0ffee", 3: "c0ffee"}
    after = [(1, "FAILED:KeyError"), (2, "c0ffee"), (3, "decaf")]
    assert list(_print_differences(before, after)) == [1, 3]
