"""Several members open a new database at the same time, as they do when a group starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.peers.running import ROOT

pytestmark = pytest.mark.integration

_OPENERS, _DATABASES = 3, 60
_OPEN = """
import sys
from pathlib import Path
from tests.conformance.ledgers import LedgerTable

sys.stdout.write("ready\\n")
sys.stdout.flush()
for line in sys.stdin:
    LedgerTable(Path(line.strip())).open(None)
    sys.stdout.write("opened\\n")
    sys.stdout.flush()
"""


def test_database_opened_concurrently_is_created_once(tmp_path: Path) -> None:
    """No process gets "database is locked", however their first statements interleave."""
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", _OPEN],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(_OPENERS)
    ]
    try:
        for opener in openers:
            assert opener.stdout is not None
            assert opener.stdout.readline() == "ready\n"
        for number in range(_DATABASES):
            for opener in openers:
                assert opener.stdin is not None
                opener.stdin.write(f"{tmp_path / str(number)}\n")
                opener.stdin.flush()
            for opener in openers:
                assert opener.stdout is not None
                assert opener.stdout.readline() == "opened\n", f"database {number}"
    finally:
        for opener in openers:
            opener.communicate()
