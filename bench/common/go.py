"""Builds programs in Go from modules of the repository, into `build/bench/`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.integration.peers.running import ROOT

BINARIES = ROOT / "build" / "bench"

_BUILD_SECONDS = 600


class GoError(Exception):
    """A program could not be built; the text says why."""


def build(module: Path, packages: str, output: Path) -> None:
    """Build packages of a Go module. The first time, Go downloads the dependencies in go.mod.

    Args:
        module: Directory of the Go module.
        packages: Packages to build, as `go build` takes them.
        output: File to write, or an existing directory.

    Raises:
        GoError: Go is missing, or the build fails.
    """
    go = shutil.which("go")
    if go is None:
        raise GoError(f"Go is missing to build {module}: put the version of its go.mod, or a later one, on PATH")
    try:
        done = subprocess.run(
            [go, "build", "-o", str(output), packages],
            cwd=module,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GoError(f"Go did not build {module} within {_BUILD_SECONDS} s") from None
    if done.returncode != 0:
        raise GoError(f"Go could not build {module}:\n{done.stdout}{done.stderr}")
