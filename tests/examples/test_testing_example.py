"""examples/testing runs as its reader would run it, in memory and over TCP."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.testing.user_project import Project

SUITE = Path(__file__).parents[2] / "examples" / "testing"


@pytest.mark.parametrize(("reached", "chosen", "count"), [("memory", "", 5), ("tcp", "group", 1)])
def test_example_suite_passes(tmp_path: Path, reached: str, chosen: str, count: int) -> None:
    project = Project(tmp_path)
    for file in SUITE.glob("*.py"):
        shutil.copy(file, project.tests)
    shutil.copy(SUITE / "pytest.ini", project.tests)
    done = project.pytest("-W", "error", f"--sarameya={reached}", "-k", chosen)
    assert (done.returncode, f"{count} passed" in done.stdout) == (0, True), done.stdout + done.stderr
