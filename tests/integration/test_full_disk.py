"""A disk that is really full: the landing waits for space, loses no record, and deletes nothing that has landed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
AS_ROOT = ("unshare", "--mount")
AS_USER = ("unshare", "--user", "--map-root-user", "--mount")


def run(program: str, directory: Path) -> str:
    """Run a program in its own mount namespace."""
    unshare_command = AS_ROOT if os.geteuid() == 0 else AS_USER
    if subprocess.run([*unshare_command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a mount namespace, for a small disk")
    command = [*unshare_command, sys.executable, "-m", program, str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-10000:]}"
    return done.stdout


def test_full_disk_during_a_spark_write_is_retried(tmp_path: Path) -> None:
    """Covers tables of Delta and of Iceberg."""
    run("tests.integration.full_disk", tmp_path)


def test_fault_51_full_disk_costs_no_linked_parquet_row(tmp_path: Path) -> None:
    assert run("tests.integration.full_disk_chain", tmp_path).endswith("landed everything\n")
