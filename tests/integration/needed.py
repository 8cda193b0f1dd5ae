"""Programs that integration tests start, and without which they are skipped (a failure where CI=true)."""

from __future__ import annotations

import os
import shutil

import pytest


def need(*programs: str) -> None:
    """Skip the test unless these programs are installed."""
    # Programs of servers are in /usr/sbin, which is not on every user's PATH.
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    missing = [program for program in programs if shutil.which(program, path=path) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)} (`make test` prints how to install them)")
