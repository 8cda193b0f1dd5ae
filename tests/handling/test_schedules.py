"""Random schedules of members, faults and failures: no message is lost, keys stay in order, commits are respected."""

from __future__ import annotations

import os

import pytest

from tests.handling.schedules import run

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))


@pytest.mark.parametrize("seed", range(8 * SOAK))
def test_schedule_keeps_the_rules(seed: int) -> None:
    assert "messages" in run(seed)
