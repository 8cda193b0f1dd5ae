"""Programs of contenders, run as the benchmark runs them."""

from __future__ import annotations

import sys

import pytest

from bench.consume.programs.reading import Outcome
from bench.consume.running import run_program
from tests.bench.consume.kit import outcome

pytestmark = pytest.mark.integration


def run(code: str, seconds: float = 60.0) -> Outcome | str:
    return run_program([sys.executable, "-c", code], seconds)


def test_printed_outcome_of_a_program_is_returned() -> None:
    assert run(f"print({outcome().to_json()!r})") == outcome()


def test_failed_program_is_reported_with_its_last_line() -> None:
    assert run("import sys; sys.exit('no\\nbroker')") == "exited with 1: broker"


def test_program_that_fails_after_its_outcome_has_failed() -> None:
    assert run(f"print({outcome().to_json()!r}); raise SystemExit(3)") == "exited with 3: no message"


def test_program_that_prints_something_else_has_failed() -> None:
    assert run("print('done')") == "printed no outcome but 'done\\n': no message"


def test_program_that_runs_too_long_is_killed_with_its_children() -> None:
    # Standard output stays open, and the run would last, for as long as the grandchild lives.
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"

    assert run(code, seconds=0.5) == "was not done after 0.5 s"
