"""A disk that is full where Spark itself writes, of Delta's and Iceberg's: waited for, at no record's cost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
AS_ROOT = ("unshare", "--mount")
AS_ANYBODY = ("unshare", "--user", "--map-root-user", "--mount")


def test_disk_that_is_full_while_spark_writes_is_waited_for(tmp_path: Path) -> None:
    apart = AS_ROOT if os.geteuid() == 0 else AS_ANYBODY
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a mount namespace, for a disk that is small")
    command = [*apart, sys.executable, "-m", "tests.integration.full_disk", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-10000:]}"
