"""Costs of an idle member per second."""

from __future__ import annotations

from bench.common.processes import Usage
from bench.idle.figures import COLUMNS, figures
from bench.idle.requests import Traffic


def test_figures_are_per_second() -> None:
    found = figures(Usage(10.0, 1.0, 50), Usage(14.0, 1.2, 60), Traffic(12, 8, 400, 800))

    assert [round(found[column.key], 6) for column in COLUMNS] == [0.05, 60, 3.0, 2.0, 100.0, 200.0]
