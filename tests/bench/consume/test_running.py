"""A contender's program, as the bench runs it."""

from __future__ import annotations

import sys

import pytest

from bench.consume.programs.reading import Outcome
from bench.consume.running import run_program
from tests.bench.consume.kit import outcome

pytestmark = pytest.mark.integration


def run(code: str, seconds: float = 60.0) -> Outcome | str:
    return run_program([sys.executable, "-c", code], seconds)


def test_program_that_tells_its_outcome_is_taken_at_its_word() -> None:
    assert run(f"print({outcome().to_json()!r})") == outcome()


def test_program_that_fails_tells_its_last_line() -> None:
    assert run("import sys; sys.exit('no\\nbroker')") == "exited with 1: broker"


def test_program_that_fails_after_its_outcome_has_failed() -> None:
    assert run(f"print({outcome().to_json()!r}); raise SystemExit(3)") == "exited with 3: no message"


def test_program_that_tells_something_else_has_failed() -> None:
    assert run("print('done')") == "printed no outcome but 'done\\n': no message"


def test_program_that_does_not_end_is_killed_with_its_children() -> None:
    # Standard output stays open, and the run would last, for as long as the grandchild lives.
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"

    assert run(code, seconds=0.5) == "was not done after 0.5 s"
