"""A user's project with Sarameya and its pytest plugin installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2]


class Project:
    """A project in `directory` whose tests run in a separate process."""

    def __init__(self, directory: Path) -> None:
        self.tests = directory / "tests"
        self.tests.mkdir()
        (self.tests / "pytest.ini").write_text("[pytest]\ntrio_mode = true\nfilterwarnings = error\n")
        # The metadata that an installer derives from pyproject.toml. The environment's own may be out of date.
        plugins = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
        installed = directory / "site" / "sarameya-0.dist-info"
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: sarameya\nVersion: 0\n")
        lines = [f"{name} = {module}\n" for name, module in plugins.items()]
        (installed / "entry_points.txt").write_text("".join(["[pytest11]\n", *lines]))
        path = [str(installed.parent), *(str(PROJECT / root) for root in ("runtime", "handlers"))]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, test: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run pytest on a test module with this text."""
        (self.tests / "test_it.py").write_text(test)
        return self.pytest(*options)

    def pytest(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *options]
        return subprocess.run(
            command, cwd=self.tests, env=self._environment, capture_output=True, text=True, timeout=100, check=False
        )

    def passes(self, test: str, *options: str, count: int = 1) -> None:
        done = self.run(test, *options)
        assert (done.returncode, f"{count} passed" in done.stdout) == (0, True), done.stdout + done.stderr

    def fails(self, test: str, *options: str) -> str:
        """Run the module, which must fail, and return the failure in one line."""
        done = self.run(test, *options)
        assert done.returncode == 1, done.stdout + done.stderr
        return " ".join(done.stdout.replace("|", " ").split())
