"""Programs in Go: built from a module in the repository into `build/bench/`."""

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
    """Build `packages` of the Go module in the directory `module` to `output`, a file or a directory that exists.

    The first time, Go downloads what go.mod names. Raises GoError.
    """
    go = shutil.which("go")
    if go is None:
        raise GoError(f"Go is missing: it builds {module} (the go of go.mod, or a later one, must be on PATH)")
    done = subprocess.run(
        [go, "build", "-o", str(output), packages],
        cwd=module,
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise GoError(f"Go could not build {module}:\n{done.stdout}{done.stderr}")
