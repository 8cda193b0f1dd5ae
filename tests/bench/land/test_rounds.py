"""Landing programs, run as the benchmark runs them."""

from __future__ import annotations

import sys

import pytest

from bench.land.programs.landing import Outcome
from bench.land.rounds import run_program
from bench.members.rounds import leaves

pytestmark = pytest.mark.integration

OUTCOME = Outcome(1.5, 2.5, {"staging": 0.5})


async def run(code: str, seconds: float = 60.0) -> tuple[Outcome, int]:
    return await run_program([sys.executable, "-c", code], seconds)


async def test_program_reports_its_outcome_and_its_memory_is_measured() -> None:
    outcome, peak = await run(f"held = b'1' * 50_000_000; import time; time.sleep(0.5); print({OUTCOME.to_json()!r})")

    assert outcome == OUTCOME
    assert peak > 50_000_000


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit('no\\nbroker')", "ended with 1: broker"),
        (f"print({OUTCOME.to_json()!r}, flush=True); raise SystemExit(3)", "ended with 3: no message"),
        ("import time; time.sleep(600)", "did not report its outcome within 0.5 s: no message"),
    ],
    ids=["no outcome", "failed after its outcome", "too slow"],
)
async def test_program_that_fails_or_times_out_raises(code: str, message: str) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        await run(code, seconds=0.5 if "sleep" in code else 60.0)

    assert [str(error) for error in leaves(raised.value)] == [message]
