"""Ten virtual hours of churn over a fixed set of seeds; `python -m tests.churn SEED` runs one of them again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.churn.simulation import HOURS, run

SEEDS = range(20)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in SEEDS[2:])])
def test_group_survives_half_an_hour_of_churn(seed: int) -> None:
    report = run(seed, HOURS)
    print(report)
    assert report.processed >= report.produced > 0
    assert report.generations > 5
    assert sum(report.faults.values()) > 30


@pytest.mark.exhaustive
def test_seed_gives_the_same_schedule_in_another_process() -> None:
    """The other process hashes strings differently: nothing may depend on the order of a set."""
    report = run(3, HOURS)
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    command = [sys.executable, "-m", "tests.churn", "3"]
    root = Path(__file__).parents[2]
    again = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
    assert str(report) in again.stdout
